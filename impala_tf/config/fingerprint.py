"""Fingerprints of configs: of whole ones, and of options that shape unrolls."""

import dataclasses
import hashlib

from impala_tf import config as config_lib
from impala_tf.config import fields

# Sections that decide how many unrolls are made, or how they are used.
_NOT_OF_UNROLLS = (
    'experiment', 'impala', 'laser', 'optimizer', 'actor', 'learner', 'replay',
    'population', 'asynchronous')
# Options of the agent's first weights, and of the choice of episodes.
_NOT_OF_MEANING = ('torso_gain', 'num_seeds')
# Options that came after replays had been saved. The values at which an unroll
# means the same as before are left out.
_LATER = {'game_variables': False, 'converted': False, 'reward_scale': 1.0,
          'episode_metrics': ''}


def of_unrolls(config: config_lib.Config) -> int:
  """Computes the fingerprint of all options that decide what an unroll means.

  These are the level and how it is played, the agent, and the unroll's length.
  Paths of DeepMind Lab's files may differ between machines. The number, an
  int64, is the same in every process and for every version of Python.
  """
  config = dataclasses.replace(config, dmlab=dataclasses.replace(
      config.dmlab, dataset_path=None, level_cache_dir=None))
  sections = [getattr(config, field.name) for field in
              dataclasses.fields(config) if field.name not in _NOT_OF_UNROLLS]
  texts = ', '.join(map(_text, sections))
  text = f'([{texts}], {config.learner.unroll_length})'
  digest = hashlib.sha256(text.encode()).digest()
  return int.from_bytes(digest[:8], 'big', signed=True)


def _text(section: fields.Section) -> str:
  """Writes the options of a section that unrolls depend on, as `repr` does.

  Fingerprints of replays that were saved earlier depend on each character.
  """
  values = [f'{name}={value!r}' for name, value in vars(section).items()
            if name not in _NOT_OF_MEANING
            and not (name in _LATER and value == _LATER[name])]
  return f'{type(section).__qualname__}({", ".join(values)})'


def of_config(config: config_lib.Config) -> str:
  """Computes the fingerprint of all values: 12 hexadecimal digits."""
  text = config_lib.to_json(config)
  return hashlib.sha256(text.encode()).hexdigest()[:12]
