"""Batched environments behind one interface, one module a domain."""
