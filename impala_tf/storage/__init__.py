"""Files on a disk or behind a URL: whole files, growing logs, checkpoints.

May import `config`.
"""
