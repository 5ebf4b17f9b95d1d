"""Pure functions of tensors, without variables, config, logging or I/O.

May import no other module of the project.
"""
