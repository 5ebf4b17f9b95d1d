"""Processes: starting and supervising them, their share of the machine.

May import `config`, `storage`, `suites`, `types` and `optimizers`.
"""
