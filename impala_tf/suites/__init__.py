"""Suites of levels, with scores of humans, of random play and of the papers.

May import `config` and `population`.
"""
