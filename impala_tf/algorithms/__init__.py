"""Learning algorithms, one file each and one row each in their table.

May import `agents`, `maths` and config.
"""
