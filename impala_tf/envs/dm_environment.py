"""Environments of dm_env, which a function of the user's makes."""

import copy
import inspect
import sys
from typing import Any, Callable, Mapping

from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import serial
from impala_tf.envs import spaces
from impala_tf.runtime import user_modules
from impala_tf.storage import files


def _check(name: str) -> None:
  """Raises ConfigError unless the user has imported the level's module."""
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


class DmEnvironment(serial.SerialEnvironment):
  """E copies of one `dm_env.Environment`, stepped in turn in this process.

  `spaces` says what becomes of observations, which may be nested. Actions are a
  `DiscreteArray`; whole numbers within bounds, one or a vector; or floating
  numbers, likewise. A LAST step with a discount of 0 terminates, any other
  truncates; discounts of other steps are not read.

  If the function takes a `seed`, that of environment i is `seed + i`.
  """

  def __init__(self, level: str, function: Callable[..., Any], num_envs: int,
               seed: int, kwargs: Mapping[str, Any], pictures: bool):
    """Makes the environments; raises ConfigError if they are not supported."""
    self._envs: list[Any] = []
    try:
      takes_seed = 'seed' in inspect.signature(function).parameters
      for i in range(num_envs):
        own = {'seed': seed + i} if takes_seed else {}
        self._envs.append(function(**{**own, **copy.deepcopy(dict(kwargs))}))
      self._converter = spaces.Converter(
          _space(self._envs[0].observation_spec()), pictures)
      action_spec, self._to_action = _actions(self._envs[0].action_spec())
    except spaces.SpaceError as error:
      self.close()
      raise config_lib.ConfigError(
          f'EnvironmentConfig.level: {level} has {error}') from error
    except Exception as error:  # Simulators raise anything.
      self.close()
      raise config_lib.ConfigError(
          f'{level} cannot be made with EnvironmentConfig.kwargs = '
          f'{dict(kwargs)}: {type(error).__name__}: {files.one_line(error)}'
      ) from error
    super().__init__(level, num_envs, action_spec,
                     self._converter.observation_spec,
                     num_features=self._converter.num_features)

  def _begin(self, i: int) -> np.ndarray:
    return self._observe(i, self._envs[i].reset().observation)

  def _advance(self, i: int, action: np.ndarray) -> serial.Transition:
    timestep = self._envs[i].step(self._to_action(action))
    is_last = timestep.last()
    terminated = bool(is_last and timestep.discount == 0)
    return serial.Transition(
        self._observe(i, timestep.observation),
        0. if timestep.reward is None else np.asarray(timestep.reward).item(),
        terminated, bool(is_last))

  def _observe(self, i: int, observation: Any) -> np.ndarray:
    observed = self._converter(observation)
    if self._converter.num_features:
      self.features[i] = observed.features
    return observed.observation

  def render(self) -> np.ndarray:
    raise NotImplementedError('dm_env has no pictures')

  def close(self) -> None:
    for env in self._envs:
      env.close()


def _space(spec: Any) -> Any:
  """Returns Gymnasium's space of a nested spec; raises SpaceError."""
  from gymnasium import spaces as gym_spaces  # Lazily: not every run needs it.
  if isinstance(spec, Mapping):
    return gym_spaces.Dict({name: _space(part) for name, part in spec.items()})
  if isinstance(spec, (list, tuple)):
    return gym_spaces.Tuple([_space(part) for part in spec])
  if isinstance(spec, specs.DiscreteArray):
    return gym_spaces.Discrete(spec.num_values)
  if not isinstance(spec, specs.Array) or spec.dtype.kind not in 'biuf':
    raise spaces.SpaceError(f'observations of {spec!r}, which are no numbers')
  if spec.dtype == np.uint8:  # Perhaps an image.
    return gym_spaces.Box(0, 255, spec.shape, np.uint8)
  return gym_spaces.Box(-np.inf, np.inf, spec.shape, np.float32)


def _actions(spec: Any) -> tuple[specs.BoundedArray,
                                 Callable[[np.ndarray], np.ndarray]]:
  """Returns the spec of an agent's actions, and what makes dm_env's of them."""
  is_bounded = isinstance(spec, specs.BoundedArray)
  if (not isinstance(spec, specs.Array) or len(spec.shape) > 1
      or spec.dtype.kind not in 'iuf'
      or (spec.dtype.kind != 'f' and not is_bounded)):
    raise spaces.SpaceError(
        f'actions of {spec!r}; only a DiscreteArray, and a BoundedArray of '
        'shape () or [D], are supported')
  if spec.dtype.kind == 'f':
    low, high = (spec.minimum, spec.maximum) if is_bounded else (
        -np.inf, np.inf)
    size = spec.shape or (1,)
    return (environment.continuous(np.broadcast_to(low, size),
                                   np.broadcast_to(high, size)),
            lambda action: action.astype(spec.dtype).reshape(spec.shape))
  low = np.broadcast_to(spec.minimum, spec.shape)
  num_values = np.broadcast_to(spec.maximum, spec.shape) - low + 1
  agents = (environment.multi_discrete(num_values) if spec.shape
            else environment.discrete(int(num_values)))
  return agents, lambda action: (action + low).astype(spec.dtype)


def _make(name: str, num_envs: int, seed: int, config: config_lib.Config,
          training: bool) -> DmEnvironment:
  """Makes a batch for the table of domains."""
  del training
  module, _, function = name.partition(':')
  return DmEnvironment(
      f'dm_env/{name}', getattr(sys.modules[module], function), num_envs, seed,
      config.environment.kwargs, config.agent.sees_pictures)


DOMAIN = domain.Domain(forms=('dm_env/<module>:<function>',), check=_check,
                       make=_make, takes_kwargs=True)
