"""Programs that users run, one module a verb, and what they share.

May import `config`, `maths`, `storage`, `suites`, `sweeps`, `runtime`, `runs`,
`comms`, `envs`, `agents`, `algorithms`, `core`, `pbt`, `roles`, `plots` and
`ray_cluster`.
"""
