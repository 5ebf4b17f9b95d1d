"""Batched environments behind one interface, with a file for each domain."""
