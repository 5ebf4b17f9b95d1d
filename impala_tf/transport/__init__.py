"""Transport of unrolls and configs through Reverb, and refusal of bad unrolls.

May import `processes`, and of the modules outside of rooms `types` and config.
"""
