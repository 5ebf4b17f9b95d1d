"""Ways to replay unrolls: uniformly, by priorities, by episodes, shared.

May import `config`, `types`, `runtime` and `comms`.
"""
