"""Parts that programs share: flags, gin files, run directories, exit codes.

May import `impala_tf` and `launch.processes`.
"""
