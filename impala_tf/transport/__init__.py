"""How unrolls and configs travel through Reverb, and which unrolls are refused.

May import `processes`, and of the modules outside of rooms `types` and config.
"""
