"""Rules and records of population based training (appendix F), pure functions.

May import `config_fields`.
"""
