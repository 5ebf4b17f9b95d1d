"""Learning algorithms, one file each and one row each in their table.

May import `config`, `types`, `processes`, `agents`, `maths`, `optimizers` and
`suites`.
"""
