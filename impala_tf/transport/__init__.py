"""Unrolls and configs on their way through Reverb.

May import `config`, `config_fingerprint`, `config_json`, `types` and
`processes`.
"""
