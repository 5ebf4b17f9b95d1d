"""Networks, the agents built of them, and acting on NumPy batches.

May import `config`, `maths`, `storage`, `types`, `runtime` and `envs`.
"""
