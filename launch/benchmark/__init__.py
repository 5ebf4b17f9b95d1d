"""What an agent step costs, in parts and as a whole; see `__main__.py`."""
