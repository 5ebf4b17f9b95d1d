"""Batched environments behind one interface, with a file for each domain.

May import `config`, `processes`, `storage` and `suites`; simulators are
imported lazily.
"""
