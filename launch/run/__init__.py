"""Parts of every program: flags, gin files, run directories, exit codes.

May import `impala_tf` and `launch.processes`.
"""
