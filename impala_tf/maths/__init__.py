"""Pure functions of tensors: V-trace, losses, distributions, PopArt's formulas.

Modules here have no variables, config, logging or I/O and import no other room.
"""
