"""Pure functions of tensors: V-trace, losses, distributions, PopArt's formulas.

Nothing here has variables, config, logging or I/O; it imports no other room.
"""
