"""Fingerprints of configs: of whole ones, and of what shapes their unrolls."""

import dataclasses
import hashlib

from impala_tf import config as config_lib
from impala_tf.config import as_json
from impala_tf.config import fields

# They say what is made of unrolls, or how many are made, not what they are.
_NOT_OF_UNROLLS = (
    'experiment', 'impala', 'laser', 'optimizer', 'actor', 'learner', 'replay',
    'population', 'asynchronous')
# They say what the agent's weights were at the start of the run, and which of a
# level's episodes are played.
_NOT_OF_MEANING = ('torso_gain', 'num_seeds')
# Options that came after replays had been saved, and the values at which an
# unroll means what it meant before: these are left out.
_LATER = {'game_variables': False, 'converted': False, 'reward_scale': 1.0,
          'episode_metrics': ''}


def of_unrolls(config: config_lib.Config) -> int:
  """Computes the fingerprint of all that decides what an unroll means.

  These are the level and how it is played, the agent, and the unroll's length.
  Where DeepMind Lab has its files may differ between machines. The number, an
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
  """Writes a section like `repr`, but without what no unroll depends on.

  Fingerprints of replays that were saved earlier depend on each character.
  """
  values = [f'{name}={value!r}' for name, value in vars(section).items()
            if name not in _NOT_OF_MEANING
            and not (name in _LATER and value == _LATER[name])]
  return f'{type(section).__qualname__}({", ".join(values)})'


def of_config(config: config_lib.Config) -> str:
  """Computes the fingerprint of all values: 12 hexadecimal digits."""
  text = as_json.dumps(config)
  return hashlib.sha256(text.encode()).hexdigest()[:12]
