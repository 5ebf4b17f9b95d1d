"""Population based training (appendix F): rules, records and a member.

May import `config`, `storage`, `suites`, `types`, `runtime` and `core`.
"""
