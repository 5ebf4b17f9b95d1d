"""Precision of torsos: bfloat16 if the processor multiplies it fast.

Processors with bfloat16 instructions gain from it, with AMX most; others lose
(docs/performance.md). Standard library only.
"""

from impala_tf import config as config_lib
from impala_tf.runtime import cores

# Names of instructions for bfloat16 by the processor's flag, fastest first.
_INSTRUCTIONS = {'amx_bf16': 'AMX', 'avx512_bf16': 'AVX-512 BF16'}
# Torsos of images. An 'mlp' gains little and would see observations in 8 bits.
_THAT_GAIN = ('shallow', 'nature', 'deep')


def instructions() -> str:
  """Names the processor's fastest bfloat16 instructions; '' if it has none."""
  flags = cores.cpuinfo('flags').split()
  return next((name for flag, name in _INSTRUCTIONS.items() if flag in flags),
              '')


def of_learner(config: config_lib.Config, device: str = 'CPU') -> str:
  """Chooses 'float32' or 'mixed_bfloat16' for the learner's torso.

  Variables are float32 with either, so that every machine can resume. `device`
  is TensorFlow's name of any of its devices, which are of one kind.
  """
  return _choose(config, device)[0]


def _choose(config: config_lib.Config, device: str = 'CPU') -> tuple[str, str]:
  """Returns a learner's precision and the reason for it, as text."""
  if config.learner.precision != 'auto':
    return config.learner.precision, 'as configured'
  if config.experiment.in_process:
    return 'float32', 'the same numbers on every machine'
  if config.agent.torso not in _THAT_GAIN:
    return 'float32', f'nothing to gain with the torso {config.agent.torso!r}'
  has = instructions()
  return ('mixed_bfloat16' if has and 'CPU' in device.upper() else 'float32',
          f'this processor has {has or "no instructions for bfloat16"}')


def of_actor(config: config_lib.Config) -> str:
  """Chooses 'float32' or 'bfloat16' for an actor's torso and its variables.

  If the learner's precision differs, V-trace corrects for it, since unrolls
  record the policy that acted.
  """
  gains = instructions() and config.agent.torso in _THAT_GAIN
  return 'bfloat16' if gains and of_learner(config) != 'float32' else 'float32'


def explain(config: config_lib.Config) -> str:
  """Explains the precision of a learner on CPUs in one line."""
  precision, reason = _choose(config)
  return f'torso in {precision} on CPUs ({reason})'
