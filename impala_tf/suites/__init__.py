"""Sets of levels, with scores of humans, random play and the papers.

May import `config`.
"""
