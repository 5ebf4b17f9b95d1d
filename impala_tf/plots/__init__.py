"""Pictures and tables of finished runs, beside the papers' scores.

May import `config`, `storage`, `suites`, `sweeps`, `runs` and `pbt`.
"""
