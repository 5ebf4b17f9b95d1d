"""A process's ports, cores, threads, waiting, shares of work and fellow learners.

May import `config`, `config_fingerprint`, `types`, `optimizers`, `storage`,
`suites` and `text`.
"""
