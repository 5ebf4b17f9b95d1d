"""The path of an unroll: actor, queue, batches, learner, weights, loop.

May import `config`, `maths`, `storage`, `types`, `optimizers`, `runtime`,
`runs`, `comms`, `envs`, `agents`, `replay` and `algorithms`.
"""
