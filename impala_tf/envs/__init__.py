"""Batched environments behind one interface, with a file for each domain.

May import `config`, `storage`, `suites` and `runtime`; simulators are imported
lazily.
"""
