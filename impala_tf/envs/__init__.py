"""Batched environments behind one interface, with a file for each domain.

May import `suites`, `processes`, `storage` and config; simulators are imported
lazily.
"""
