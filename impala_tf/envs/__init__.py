"""Batched environments behind one interface, one file a domain.

May import `config`, `processes` and `suites`; simulators are imported lazily.
"""
