"""Learning algorithms, one file each: losses of an agent's unrolls.

May import `config`, `types`, `maths` and `agents`.
"""
