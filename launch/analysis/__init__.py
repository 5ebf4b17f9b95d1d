"""Displays of the paper's analysis, drawn from sweeps."""
