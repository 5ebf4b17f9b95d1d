"""Optimisers with their slots, and hyper-parameters that are variables.

May import `maths`, and of the modules outside of rooms config.
"""
