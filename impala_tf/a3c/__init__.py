"""A3C and its siblings: workers that share parameters without locks.

May import `config`, `maths`, `storage`, `types`, `optimizers`, `runtime`,
`runs`, `comms`, `envs`, `agents`, `algorithms` and `core`.
"""
