"""Runs and sweeps on a Ray cluster."""
