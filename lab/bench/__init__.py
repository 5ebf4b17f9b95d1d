"""Measurements of parts, of whole runs and of many processes.

May import `impala_tf`.
"""
