"""Environments of dm_env, made by a function that the user supplies."""

import functools
import inspect
import sys
from typing import Any, Mapping

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import gym
from impala_tf.envs import spaces
from impala_tf.runtime import user_modules

_HEIGHT, _WIDTH = 240, 320  # Pixels of dm_control's pictures.


def _check(name: str) -> None:
  module, colon, function = name.partition(':')
  if not colon or not function.isidentifier():
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: dm_env/{name} must be '
        'dm_env/<module>:<function>, whose function returns an environment')
  if not user_modules.is_loaded(module):
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: dm_env/{name} calls code of {module!r}, '
        f'which was not imported; give --import={module}, or the path of its '
        'file')
  if not callable(getattr(sys.modules[module], function, None)):
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {module} has no function {function!r}')


class AsGymnasium:
  """A `dm_env.Environment` with the methods that `gym.GymEnvironment` calls.

  A LAST step with a discount of 0 terminates, any other truncates; discounts of
  other steps are not read.
  """

  def __init__(self, env: dm_env.Environment):
    """Wraps `env`; SpaceError for unsupported observations or actions."""
    self._env = env
    self.unwrapped = self
    self.close = env.close
    self.has_wrapper_attr = functools.partial(hasattr, env)
    self.get_wrapper_attr = functools.partial(getattr, env)
    self.observation_space = _space(env.observation_spec())
    self._action_spec = env.action_spec()  # dm_control makes it at each call.
    self.action_space = _action_space(self._action_spec)
    self.metadata = ({'render_fps': 1 / env.control_timestep()}  # dm_control's.
                     if hasattr(env, 'control_timestep') else None)

  def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    del seed  # The function has got it.
    return self._env.reset().observation, {}

  def step(self, action: np.ndarray) -> tuple[Any, ...]:
    timestep = self._env.step(np.asarray(
        action, self._action_spec.dtype).reshape(self._action_spec.shape))
    is_last = timestep.last()
    return (timestep.observation,
            0. if timestep.reward is None else timestep.reward,
            is_last and timestep.discount == 0, is_last, {})

  def render(self) -> np.ndarray:
    if not hasattr(self._env, 'physics'):
      raise NotImplementedError('dm_env has no pictures')
    return self._env.physics.render(_HEIGHT, _WIDTH, camera_id=0)


def _space(spec: Any) -> Any:
  """Converts a nested spec to a Gymnasium space; SpaceError unless numeric."""
  from gymnasium import spaces as gym_spaces  # Lazily: not every run needs it.
  if isinstance(spec, Mapping):
    return gym_spaces.Dict({name: _space(part) for name, part in spec.items()})
  if isinstance(spec, (list, tuple)):
    return gym_spaces.Tuple([_space(part) for part in spec])
  if isinstance(spec, specs.DiscreteArray):
    return gym_spaces.Discrete(spec.num_values)
  if not isinstance(spec, specs.Array) or spec.dtype.kind not in 'biuf':
    raise spaces.SpaceError(f'observations of {spec!r}, which are no numbers')
  dtype: Any = np.uint8 if spec.dtype == np.uint8 else np.float32
  return gym_spaces.Box(*_bounds(spec, spec.shape, dtype), dtype=dtype)


def _bounds(spec: Any, shape: Any, dtype: Any) -> Any:
  """Returns a spec's bounds as arrays; without any those of bytes, or none."""
  bounds = (0, 255) if dtype == np.uint8 else (-np.inf, np.inf)
  if isinstance(spec, specs.BoundedArray):
    bounds = spec.minimum, spec.maximum
  return [np.broadcast_to(bound, shape).astype(dtype) for bound in bounds]


def _action_space(spec: Any) -> Any:
  """Converts an action's spec to a Gymnasium space, or raises SpaceError."""
  from gymnasium import spaces as gym_spaces
  if (not isinstance(spec, specs.Array) or len(spec.shape) > 1
      or spec.dtype.kind not in 'biuf'
      or spec.dtype.kind != 'f' and not isinstance(spec, specs.BoundedArray)):
    raise spaces.SpaceError(
        f'actions of {spec!r}; only a DiscreteArray, and a BoundedArray of '
        'shape () or [D], are supported')
  is_float = spec.dtype.kind == 'f'
  shape = (1,) if is_float and not spec.shape else spec.shape
  dtype = spec.dtype if is_float else np.int64
  low, high = _bounds(spec, shape, dtype)
  if is_float:
    return gym_spaces.Box(low, high, dtype=dtype)
  if spec.shape:
    return gym_spaces.MultiDiscrete(high - low + 1, start=low)
  return gym_spaces.Discrete(int(high - low + 1), start=int(low))


def _make(name: str, num_envs: int, seed: int, config: config_lib.Config,
          training: bool) -> gym.GymEnvironment:
  """Makes a batch of E environments by calls of the level's function.

  If the function has an argument `seed`, each call gets another seed.
  """
  del training
  module, _, function_name = name.partition(':')
  function = getattr(sys.modules[module], function_name)

  takes_seed = 'seed' in inspect.signature(function).parameters

  def make(seed: int, /, **arguments: Any) -> AsGymnasium:
    own = {'seed': seed} if takes_seed else {}
    return AsGymnasium(function(**{**own, **arguments}))

  return gym.GymEnvironment(
      name, num_envs, seed, f'dm_env/{name}',
      kwargs=config.environment.kwargs, converted=config.environment.converted,
      pictures=config.agent.sees_pictures, make=make)


DOMAIN = domain.Domain(forms=('dm_env/<module>:<function>',), check=_check,
                       make=_make, takes_kwargs=True)
