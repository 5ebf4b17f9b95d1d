"""IMPALA (Espeholt et al., 2018) in TensorFlow 2.

Importing the package imports no TensorFlow; each module imports what it needs.
Import it before TensorFlow, or set TF_ENABLE_ONEDNN_OPTS=1 yourself.
"""

import importlib
import os
import sys
import warnings

__version__ = '0.1.0'

# TensorFlow switches oneDNN on by itself on some CPUs only; where it does not
# (AMD's), a learner update takes twice as long. Read as TensorFlow is imported.
if 'tensorflow' in sys.modules and 'TF_ENABLE_ONEDNN_OPTS' not in os.environ:
  warnings.warn(
      'impala_tf was imported after TensorFlow, too late to switch oneDNN on; '
      'on many CPUs training will be half as fast. Import impala_tf first, or '
      'set TF_ENABLE_ONEDNN_OPTS=1', stacklevel=2)
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')

# Names of the API, to the modules that have them, which are imported with the
# first use, and the names there.
_API = {
    'register_algorithm': ('algorithms.table', 'register'),
    'register_domain': ('envs.factory', 'register'),
    'register_torso': ('agents.torsos', 'register'),
}


def __getattr__(name):
  """Imports what the API names (PEP 562)."""
  if name not in _API:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  module, attribute = _API[name]
  return getattr(importlib.import_module(f'{__name__}.{module}'), attribute)
