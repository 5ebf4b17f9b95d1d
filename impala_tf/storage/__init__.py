"""Files on a disk or behind a URL: whole files, growing logs and checkpoints.

May import config and nothing else of the project.
"""
