"""Roles of a run: learner, actor, evaluator, replay, or a run in one process.

May import `config`, `maths`, `storage`, `suites`, `types`, `optimizers`,
`runtime`, `runs`, `comms`, `envs`, `agents`, `replay`, `algorithms`, `core`,
`a3c` and `pbt`.
"""
