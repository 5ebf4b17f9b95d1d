"""Entry point of Bazel's tests: runs the given files with pytest."""

import importlib.util
import sys

if __name__ == '__main__':
  if importlib.util.find_spec('tensorflow') is None:
    sys.exit(f'bazel_main.py: {sys.executable} has no TensorFlow; run '
             '`source .venv/bin/activate` first, then bazel')
  import pytest
  # No cache: there is nothing to keep it for.
  sys.exit(pytest.main(['-p', 'no:cacheprovider', *sys.argv[1:]]))
