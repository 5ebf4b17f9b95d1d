"""Programs that users run; see the shell scripts beside the modules."""

# Before any module here imports TensorFlow, which it has switches for.
import impala_tf  # noqa: F401
