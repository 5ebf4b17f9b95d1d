"""Arrangements of hops into programs: learner, evaluator, replay, one process.

May import `config`, `config_fingerprint`, `types`, `population`, `storage`,
`suites`, `optimizers`, `processes`, `envs`, `monitoring`, `transport`,
`agents`, `algorithms`, `asynchronous`, `actor`, `replay`, `dataset`, `learner`,
`weights`, `evaluation`, `training`, `dynamic_batching_actor` and `experiment`.
"""
