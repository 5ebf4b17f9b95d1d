"""IMPALA (Espeholt et al., 2018) in TensorFlow 2.

`__all__` is public (docs/python_api.md); all else may change. Importing the
package imports no TensorFlow; its names do as they are used. Import it before
TensorFlow, or set TF_ENABLE_ONEDNN_OPTS=1 yourself.
"""

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any, List
import warnings

if TYPE_CHECKING:  # For editors, type checkers and the reference of the API.
  from impala_tf.agents.policy import load_policy
  from impala_tf.agents.saved import load_agent
  from impala_tf.agents.torsos import register as register_torso
  from impala_tf.algorithms.table import register as register_algorithm
  from impala_tf.config import (
      ActorConfig, AgentConfig, AsyncConfig, AtariConfig, Config, ConfigError,
      DmlabConfig, EnvironmentConfig, ExperimentConfig, ImpalaConfig,
      LaserConfig, LearnerConfig, OptimizerConfig, PopulationConfig,
      ReplayConfig, UserError, VizdoomConfig)
  from impala_tf.envs.factory import register as register_domain
  from impala_tf.envs.multi_level import make_for_policies as make_environment
  from impala_tf.roles.scores import evaluate
  from impala_tf.roles.training import train
  from impala_tf.runtime.interfaces import StopTraining
  from impala_tf.runtime.user_modules import load as import_modules

__version__ = '0.1.0'

# TensorFlow switches oneDNN on by default on some CPUs, but not on AMD's, where
# a learner update takes twice as long without. Read as TensorFlow is imported.
if 'tensorflow' in sys.modules and 'TF_ENABLE_ONEDNN_OPTS' not in os.environ:
  warnings.warn(
      'impala_tf was imported after TensorFlow, too late to switch oneDNN on; '
      'on many CPUs training will be half as fast. Import impala_tf first, or '
      'set TF_ENABLE_ONEDNN_OPTS=1', stacklevel=2)
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
if importlib.util.find_spec('tf_keras') is None:  # TensorFlow would need it.
  os.environ.pop('TF_USE_LEGACY_KERAS', None)
# TensorFlow's errors only, not its start-up chatter.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

# Public names, to their modules, which the first use imports, and names there.
_API = {
    **{name: ('impala_tf.config', name) for name in (
        'ActorConfig', 'AgentConfig', 'AsyncConfig', 'AtariConfig', 'Config',
        'ConfigError', 'DmlabConfig', 'EnvironmentConfig', 'ExperimentConfig',
        'ImpalaConfig', 'LaserConfig', 'LearnerConfig', 'OptimizerConfig',
        'PopulationConfig', 'ReplayConfig', 'UserError', 'VizdoomConfig')},
    'evaluate': ('impala_tf.roles.scores', 'evaluate'),
    'import_modules': ('impala_tf.runtime.user_modules', 'load'),
    'load_agent': ('impala_tf.agents.saved', 'load_agent'),
    'load_policy': ('impala_tf.agents.policy', 'load_policy'),
    'make_environment': ('impala_tf.envs.multi_level', 'make_for_policies'),
    'register_algorithm': ('impala_tf.algorithms.table', 'register'),
    'register_domain': ('impala_tf.envs.factory', 'register'),
    'register_torso': ('impala_tf.agents.torsos', 'register'),
    'StopTraining': ('impala_tf.runtime.interfaces', 'StopTraining'),
    'train': ('impala_tf.roles.training', 'train'),
}
__all__ = sorted(_API)


def __getattr__(name: str) -> Any:
  """Imports the module of a public name and returns the object (PEP 562)."""
  if name not in _API:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  module, attribute = _API[name]
  return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
  return sorted([*globals(), *_API])
