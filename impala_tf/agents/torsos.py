"""The table of torsos: names of the built-in ones, and the user's functions.

Importing it imports no TensorFlow, so that launchers can look a name up.
"""

from typing import Any, Callable, Sequence

from impala_tf import config as config_lib
from impala_tf.config import agent as agent_config
from impala_tf.runtime import user_modules

# Makes a torso of `AgentConfig.hidden_size` and a precision, 'float32' or
# 'mixed_bfloat16': a `tf.Module` from observations [N, ...] to float32 [N, F].
MakeTorso = Callable[[int, str], Any]

# Their classes are in `networks`.
BUILT_IN = (*agent_config.IMAGE_TORSOS, 'mlp', 'dense')
AUTO = 'auto'
# Pixels of height and width that strided convolutions need at least.
_MIN_PIXELS = {'shallow': 20, 'linear_convolutions': 20, 'nature': 36}
_AUTO_SHALLOW_PIXELS = 36
OWN: dict[str, MakeTorso] = {}


def register(name: str) -> Callable[[MakeTorso], MakeTorso]:
  """Returns a decorator that registers a `MakeTorso` as the user's torso.

  Raises ConfigError if `name`, the new value of `AgentConfig.torso`, is taken.
  """
  if name in (*BUILT_IN, AUTO) or name in OWN:
    raise config_lib.ConfigError(
        f'there is a torso {name!r} already; choose another name')

  def add(make: MakeTorso) -> MakeTorso:
    OWN[name] = make
    user_modules.note_registration('AgentConfig.torso', name)
    return make

  return add


def check(name: str) -> None:
  """Raises ConfigError for an unknown torso; imports no TensorFlow."""
  if name not in (*BUILT_IN, AUTO) and name not in OWN:
    raise user_modules.unknown_name(
        'AgentConfig.torso', name, (*BUILT_IN, AUTO, *OWN))


def fitting(name: str, shape: Sequence[int]) -> str:
  """Returns a torso's name; for 'auto', the name that fits the shape.

  Raises ConfigError if the named torso cannot read that shape.
  """
  if name == AUTO:
    if len(shape) != 3:
      return 'mlp'
    return 'shallow' if min(shape[:2]) >= _AUTO_SHALLOW_PIXELS else 'grid'
  if name not in agent_config.IMAGE_TORSOS:
    return name
  least = _MIN_PIXELS.get(name, 1)
  if len(shape) == 3 and min(shape[:2]) >= least:
    return name
  wanted, remedy = 'images [H, W, C]', "use AgentConfig.torso = 'mlp'"
  if len(shape) == 3:
    wanted += f' of at least {least} x {least} pixels, channels last'
    remedy += " or 'grid'"
  raise config_lib.ConfigError(
      f"AgentConfig.torso = '{name}' needs {wanted}, but observations are "
      f"{list(shape)}; {remedy}, or 'auto', which chooses")
