"""IMPALA (Espeholt et al., 2018) in TensorFlow 2.

What is public is in `__all__` (docs/python_api.md); all else may change.
Importing the package imports no TensorFlow; each name imports what it needs.
Import it before TensorFlow, or set TF_ENABLE_ONEDNN_OPTS=1 yourself.
"""

import importlib
import os
import sys
from typing import Any, List
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

_CONFIG = 'impala_tf.config'
# Public names and their modules, which are imported when one is asked for.
_MODULES = {
    'ActorConfig': _CONFIG,
    'AgentConfig': _CONFIG,
    'AtariConfig': _CONFIG,
    'Config': _CONFIG,
    'ConfigError': _CONFIG,
    'DmlabConfig': _CONFIG,
    'EnvironmentConfig': _CONFIG,
    'ExperimentConfig': _CONFIG,
    'ImpalaConfig': _CONFIG,
    'LearnerConfig': _CONFIG,
    'OptimizerConfig': _CONFIG,
    'ReplayConfig': _CONFIG,
    'UserError': _CONFIG,
    'VizdoomConfig': _CONFIG,
    'load_agent': 'impala_tf.agents.saved',
    'load_policy': 'impala_tf.agents.policy',
    'make_environment': 'impala_tf.experiment',
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
  if name not in _MODULES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> List[str]:
  return sorted([*globals(), *_MODULES])
