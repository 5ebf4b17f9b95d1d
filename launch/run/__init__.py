"""What programs share: flags and gin files, directories of runs, how they end.

May import `impala_tf` and `launch.processes`.
"""
