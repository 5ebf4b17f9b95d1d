"""What a process needs of machine and peers: ports, waiting, threads, sizes.

May import `storage`, `suites`, and of the modules outside of rooms `types` and
config.
"""
