"""Networks, the agents built of them, and acting on NumPy batches.

May import `config`, `types`, `maths`, `storage`, `processes` and `envs`.
"""
