"""Words of what programs print and refuse.

May import no other module of the project.
"""
