"""Programs that users run, one module for each verb, and shared parts.

May import `config`, `maths`, `storage`, `suites`, `sweeps`, `runtime`, `runs`,
`comms`, `envs`, `agents`, `algorithms`, `core`, `pbt`, `roles`, `plots` and
`ray_cluster`.
"""
