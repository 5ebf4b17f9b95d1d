"""Sets of levels with the scores of humans, random play and the papers.

May import config and nothing else of the project.
"""
