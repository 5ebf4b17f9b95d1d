"""Suites of levels, with scores of humans, of random play and of papers."""
