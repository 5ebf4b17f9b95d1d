"""Workers that play and learn by themselves and share parameters, unlocked.

May import `types`, `maths`, `envs`, `monitoring`, `transport` and `agents`.
"""
