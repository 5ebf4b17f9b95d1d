"""A process's ports, cores, threads, waiting, share of work, fellow learners.

May import `config`, `config_fingerprint`, `types`, `optimizers`, `storage`,
`suites` and `text`.
"""
