"""Communication: packed unrolls, calls of Reverb, tables, shared memory.

May import `config`, `types` and `runtime`.
"""
