"""Learning algorithms, one file each and one row each in their table.

May import `agents`, `maths`, `optimizers`, `suites`, and of the modules outside
of rooms config and `types`.
"""
