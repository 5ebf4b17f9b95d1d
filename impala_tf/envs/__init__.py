"""Batched environments behind one interface, with a file for each domain.

May import `config`, `storage`, `suites`, `runtime` and `runs`; simulators are
imported lazily.
"""
