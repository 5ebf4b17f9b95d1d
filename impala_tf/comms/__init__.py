"""Transport of unrolls and configs through Reverb, and refusal of bad unrolls.

May import `config`, `config_fingerprint`, `config_json`, `types` and
`processes`.
"""
