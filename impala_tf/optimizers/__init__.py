"""Optimisers with their slots, and hyper-parameters that are variables.

May import `config`.
"""
