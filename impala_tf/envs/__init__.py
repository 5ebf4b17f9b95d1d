"""Batched environments behind one interface, one file a domain.

May import `suites`, `processes`, `storage` and config; simulators are imported
lazily.
"""
