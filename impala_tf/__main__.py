"""The command `impala-tf`, as `python -m impala_tf`."""

from impala_tf.cli import main

main.main()
