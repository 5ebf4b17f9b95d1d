"""Fingerprints of configs: of whole ones, and of what shapes their unrolls."""

import dataclasses
import hashlib

from impala_tf import config as config_lib
from impala_tf import config_json

# They say what is made of unrolls, or how many are made, not what they are.
_NOT_OF_UNROLLS = (
    'experiment', 'impala', 'optimizer', 'actor', 'learner', 'replay')


def of_unrolls(config: config_lib.Config) -> int:
  """Computes the fingerprint of all that decides what an unroll means.

  These are the level and how it is played, the agent, and the unroll's length.
  Where DeepMind Lab has its files may differ between machines.

  Args:
    config: a run's.

  Returns:
    An int64, the same in every process and for every version of Python.
  """
  config = dataclasses.replace(config, dmlab=dataclasses.replace(
      config.dmlab, dataset_path=None, level_cache_dir=None))
  sections = [getattr(config, field.name) for field in
              dataclasses.fields(config) if field.name not in _NOT_OF_UNROLLS]
  text = repr((sections, config.learner.unroll_length))
  digest = hashlib.sha256(text.encode()).digest()
  return int.from_bytes(digest[:8], 'big', signed=True)


def of_config(config: config_lib.Config) -> str:
  """Computes the fingerprint of all values: 12 hexadecimal digits."""
  text = config_json.dumps(config)
  return hashlib.sha256(text.encode()).hexdigest()[:12]
