"""The papers' figures and tables, from finished sweeps."""
