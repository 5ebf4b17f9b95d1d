"""Networks, the agent that they make up, and acting with it on NumPy batches.

May import `maths`, `envs` (for its word ids) and what lies below them.
"""
