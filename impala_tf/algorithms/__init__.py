"""Learning algorithms, one file each and one row each in their table.

May import `config`, `maths`, `suites`, `types`, `optimizers`, `runtime` and
`agents`.
"""
