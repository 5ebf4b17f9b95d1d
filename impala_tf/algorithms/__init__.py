"""Learning algorithms, and the table of their names."""
