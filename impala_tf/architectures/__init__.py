"""Arrangements of hops into programs: learner, evaluator, one process.

May import `config`, `evaluation`, `experiment`, `monitoring`, `processes`,
`suites`, `training`, `transport` and `weights`.
"""
