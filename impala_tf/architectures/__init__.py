"""Arrangements of hops into programs: learner, evaluator, one process.

May import `config`, `types`, `storage`, `suites`, `optimizers`, `processes`,
`envs`, `monitoring`, `transport`, `agents`, `actor`, `replay`, `dataset`,
`learner`, `weights`, `evaluation`, `training`, `dynamic_batching_actor` and
`experiment`.
"""
