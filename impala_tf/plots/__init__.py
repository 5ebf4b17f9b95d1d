"""Pictures and tables of finished runs, beside the papers' scores."""
