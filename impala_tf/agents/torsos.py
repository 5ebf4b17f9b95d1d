"""The table of torsos: names of the project's, and functions of the user's own.

Importing it imports no TensorFlow, so that launchers can look a name up.
"""

from typing import Any, Callable, Dict

from impala_tf import config as config_lib
from impala_tf.runtime import user_modules

# Makes a torso of `AgentConfig.hidden_size` and a precision, 'float32' or
# 'mixed_bfloat16': a `tf.Module` that maps observations [N, ...] to features,
# float32 [N, F].
MakeTorso = Callable[[int, str], Any]

# Their classes are in `networks`.
FOR_IMAGES = ('shallow', 'nature', 'deep', 'linear_convolutions')
BUILT_IN = (*FOR_IMAGES, 'mlp', 'dense')
OWN: Dict[str, MakeTorso] = {}


def register(name: str) -> Callable[[MakeTorso], MakeTorso]:
  """Registers a torso of the user's own, as a decorator of its class.

  It decorates a class or another `MakeTorso`. `name` is the new value of
  `AgentConfig.torso`; raises ConfigError if it is taken.
  """
  if name in BUILT_IN or name in OWN:
    raise config_lib.ConfigError(
        f'there is a torso {name!r} already; choose another name')

  def add(make: MakeTorso) -> MakeTorso:
    OWN[name] = make
    user_modules.note_registration('AgentConfig.torso', name)
    return make

  return add


def check(name: str) -> None:
  """Raises ConfigError for an unknown torso; imports no TensorFlow."""
  if name not in BUILT_IN and name not in OWN:
    raise user_modules.unknown_name(
        'AgentConfig.torso', name, (*BUILT_IN, *OWN))
