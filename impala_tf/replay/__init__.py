"""Replays beyond a uniform one: priorities, episodes, sharing, pacing.

May import `config`, `types`, `runtime` and `comms`.
"""
