"""Measurements and the papers' figures; no other package imports it."""

# Before any module here imports TensorFlow, which it has switches for.
import impala_tf  # noqa: F401
