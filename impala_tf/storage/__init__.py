"""Files on a disk or behind a URL, and those that come with the package.

May import `config`.
"""
