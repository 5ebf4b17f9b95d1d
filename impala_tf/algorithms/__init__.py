"""Learning algorithms, and the table of their names.

May import `config`, `maths`, `suites`, `types`, `optimizers`, `runtime` and
`agents`.
"""
