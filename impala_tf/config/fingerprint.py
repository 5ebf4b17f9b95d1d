"""Fingerprints of whole configs, and of the options that shape unrolls."""

import hashlib

from impala_tf.config import config as config_lib

# Sections that decide how many unrolls are made, or how they are used.
_NOT_OF_UNROLLS = ('experiment', 'impala', 'laser', 'optimizer', 'actor',
                   'learner', 'replay', 'population', 'asynchronous')
# Options of the agent's first weights, and of the choice of episodes.
_NOT_OF_MEANING = ('torso_gain', 'num_seeds')
# Options that came after replays had been saved. The values at which an unroll
# means the same as before are left out.
_LATER = {'game_variables': False, 'converted': False, 'reward_scale': 1.0,
          'episode_metrics': ''}


def data_fingerprint(config: config_lib.Config) -> int:
  """Computes the fingerprint of all options that decide what an unroll means.

  These are the level and how it is played, the agent, and the unroll's length.
  Paths of DeepMind Lab's files may differ between machines. The number, an
  int64, is the same in every process and for every version of Python.
  """
  config = config.replaced('dmlab', dataset_path=None, level_cache_dir=None)
  sections = []
  for name, section in vars(config).items():
    if name not in _NOT_OF_UNROLLS:
      values = [f'{option}={value!r}' for option, value in vars(section).items()
                if option not in _NOT_OF_MEANING
                and not (option in _LATER and value == _LATER[option])]
      sections.append(f'{type(section).__qualname__}({", ".join(values)})')
  # Fingerprints of replays that were saved earlier depend on each character.
  text = f'([{", ".join(sections)}], {config.learner.unroll_length})'
  digest = hashlib.sha256(text.encode()).digest()
  return int.from_bytes(digest[:8], 'big', signed=True)


def full_fingerprint(config: config_lib.Config) -> str:
  """Computes the fingerprint of all options: 12 hexadecimal digits."""
  return hashlib.sha256(config_lib.to_json(config).encode()).hexdigest()[:12]
