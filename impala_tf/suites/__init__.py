"""Suites: their levels, reference scores and normalised scores."""
