"""Pure functions of tensors: no variables, config, logging or I/O.

May import no other module of the project.
"""
