"""Measurements of parts, of whole runs and of many processes."""
