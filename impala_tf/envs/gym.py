"""Registered environments of Gymnasium; `spaces` says what they may observe."""

import copy
import sys
import traceback
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import display
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import spaces
from impala_tf.runtime import user_modules
from impala_tf.storage import files

# Gymnasium's doors to the old Gym: they make what their arguments name, and
# import the module of that. Arguments come from configs.
_MADE_BY_NAME = 'GymV2'

# Key of an `info` under which an environment reports its legal actions.
_MASK = 'action_mask'


def check_module(level: str) -> None:
  """Raises ConfigError if Gymnasium would import an untrusted module.

  Its ids may be 'module:Name-v0', and configs may come from strangers. So that
  they cannot run code, the user imports such modules with --import.

  `level` has its domain, such as 'gym/module:Name-v0'.
  """
  module, colon, name = level.partition('/')[2].rpartition(':')
  if colon and not user_modules.is_loaded(module):
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} has the module {module!r} imported, '
        f'which runs its code; if you trust it, give --import={module}')
  if name.startswith(_MADE_BY_NAME):
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} imports what its arguments name; '
        'register the environment in a file of your own, and give '
        '--import=FILE.py')


def _check(env_id: str) -> None:
  """Raises ConfigError for an id that cannot be made; imports no simulator.

  Registered ids are known only after the user's modules imported Gymnasium.
  """
  level = f'gym/{env_id}'
  check_module(level)
  gymnasium = sys.modules.get('gymnasium')
  if user_modules.sources() and gymnasium:
    try:
      gymnasium.spec(env_id.rpartition(':')[2])
    except gymnasium.error.UnregisteredEnv as error:
      raise _cannot_be_made(level, error) from error


class GymEnvironment(environment.BatchedEnvironment):
  """E copies of one environment, stepped within this process.

  They are stepped in turn; CartPole without wrappers or arguments is stepped as
  one batch.

  `spaces` says what becomes of observations. Actions are `Discrete` or
  `MultiDiscrete` [D], counted from 0 whatever their `start` is, or a `Box` [D]
  of floats, to whose bounds they are clipped.

  Discrete actions are masked if the first reset's `info`, which the constructor
  reads, has an 'action_mask'. Then all later resets and steps must have one:
  nonzero for each action that is legal next, [A], or for each value of each
  choice of `MultiDiscrete`, in one array or a tuple.

  The environment's own time limit truncates: discount 1 with FIRST. Termination
  wins if both fall on one step. Environment i is seeded with `seed + i`.
  """

  def __init__(self, env_id: str, num_envs: int, seed: int,
               level: Optional[str] = None,
               wrappers: Sequence[Callable[[Any], Any]] = (),
               instruction_length: int = 0,
               kwargs: Optional[Mapping[str, Any]] = None):
    """Makes the environments of an id that Gymnasium has registered.

    For 'module:Name-v0' it imports the module first; see `check_module`.
    `level` is for messages, by default 'gym/<env_id>'. Wrappers of each
    environment come innermost first. Raises ConfigError if it is not installed,
    cannot be made or reset, or has unsupported spaces.
    """
    level = level or f'gym/{env_id}'
    self._envs, self._render_first = _make(
        level, env_id, num_envs, wrappers, kwargs or {})
    actions = self._envs.single_action_space
    try:
      action_spec = _action_spec(level, actions)
      # Whether actions are masked must be known before the first step.
      self._first_reset = self._envs.reset(seed=seed)
      is_masked = _MASK in self._first_reset[1]
      if is_masked and not np.issubdtype(action_spec.dtype, np.integer):
        raise _unsupported(level, 'a mask of actions', actions,
                           'one of Discrete or MultiDiscrete')
    except Exception as error:  # Simulators raise anything.
      self._envs.close()
      if isinstance(error, config_lib.ConfigError):
        raise
      raise config_lib.ConfigError(
          f'{level} cannot be reset: {_place_and_cause(error)}') from error
    # The wrappers' converter has left a space that converts to itself.
    converter = spaces.Converter(self._envs.single_observation_space)
    super().__init__(
        level, num_envs, action_spec, converter.observation_spec,
        instruction_length=instruction_length,
        num_features=converter.num_features, has_action_mask=is_masked)
    self._num_values = np.atleast_1d(action_spec.maximum) + 1
    metadata = self._envs.metadata or {}
    self.frames_per_sec = metadata.get('render_fps') or self.frames_per_sec
    # Only discrete actions have a `start`.
    self._first_action = np.asarray(getattr(actions, 'start', 0), np.int64)

  def reset(self) -> dm_env.TimeStep:
    """Returns the constructor's reset first; UserError for a bad mask."""
    observation, info = self._first_reset or self._envs.reset()
    self._first_reset = None
    self._read_masks(info)
    return self._first(self._read(observation))

  def _read(self, observation: Any) -> np.ndarray:
    """Returns a batch's observations, and keeps the features beside them."""
    if len(self.features):
      self.features[:] = observation['features']
      observation = observation['observation']
    return observation.astype(self._observation_spec.dtype, copy=False)

  def _read_masks(self, info: Mapping[str, Any]) -> None:
    """Keeps the masks of a reset or a step; raises UserError."""
    masks = info.get(_MASK)
    for i, row in enumerate(self.action_mask):
      mask = None
      if isinstance(masks, np.ndarray) and info[f'_{_MASK}'][i]:
        mask = masks[i]
      try:
        row[:] = spaces.flat_mask(mask, self._num_values)
      except spaces.SpaceError as error:
        raise config_lib.UserError(
            f'{self.level}: the {_MASK} in the info of environment {i} {error}'
        ) from error

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    observation, reward, terminated, truncated, info = self._envs.step(
        actions + self._first_action)
    self._read_masks(info)
    return self._as_timestep(terminated | truncated, reward, ~terminated,
                             self._read(observation))

  def render(self) -> np.ndarray:
    # The batch's own `render` would draw every environment.
    return np.asarray(self._render_first(), np.uint8)

  def close(self) -> None:
    self._envs.close()


def _make(level: str, env_id: str, num_envs: int,
          wrappers: Sequence[Callable[[Any], Any]],
          kwargs: Mapping[str, Any]) -> Tuple[Any, Callable[[], Any]]:
  """Makes a vector environment and a function that draws environment 0.

  It resets within the step of an end. Raises ConfigError.
  """
  display.draw_without_display()
  try:
    import gymnasium  # Lazily: it and what it registers are simulators.
  except ImportError as e:
    raise config_lib.ConfigError(
        f'{level} needs the package gymnasium: pip install gymnasium'
    ) from e
  if not wrappers and not kwargs:
    from impala_tf.envs import gym_cart_pole  # Lazily: it needs Gymnasium.
    if gym_cart_pole.is_cart_pole(env_id):
      batch = gym_cart_pole.CartPoleBatch(env_id, num_envs)
      return batch, batch.render_first
  same_step = gymnasium.vector.AutoresetMode.SAME_STEP
  try:
    envs: Any = gymnasium.make_vec(
        env_id, num_envs, vectorization_mode='sync',
        vector_kwargs={'autoreset_mode': same_step, 'copy': False},
        wrappers=[*wrappers, _convert_observations], render_mode='rgb_array',
        **kwargs)
    return envs, envs.envs[0].render
  except spaces.SpaceError as e:
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} has observations of {e}') from e
  except (gymnasium.error.Error, ImportError) as e:
    raise _cannot_be_made(level, e) from e
  except Exception as e:  # Simulators raise anything.
    raise config_lib.ConfigError(
        f'{level} cannot be made with EnvironmentConfig.kwargs = '
        f'{dict(kwargs)}: {_explain(e)}') from e


def _explain(error: Exception) -> str:
  """Describes what a constructor raised, or the call that did not fit it."""
  cause = files.one_line(error, None).partition(' was raised from the env')[0]
  if isinstance(error, TypeError) and ' argument' in cause:
    return f'{cause}; its constructor must take these and render_mode'
  return _place_and_cause(error)


def _place_and_cause(error: Exception) -> str:
  """Names the line of code that raised an error, and its message."""
  cause = files.one_line(error, None).partition(' was raised from the env')[0]
  # Gymnasium raises a TypeError anew.
  origin = getattr(error.__cause__, '__traceback__', None)
  line = traceback.extract_tb(origin or error.__traceback__)[-1]
  return f'{line.filename}, line {line.lineno}: {type(error).__name__}: {cause}'


def _cannot_be_made(level: str, error: Exception) -> config_lib.ConfigError:
  """Makes the error for an id that Gymnasium does not know or cannot make."""
  # Gymnasium names the nearest ids, and the package to install.
  cause = files.one_line(error, None)
  if cause.startswith('MuJoCo is not installed'):
    cause = ("it needs the package mujoco, the extra 'mujoco': "
             "pip install -c constraints.txt -e '.[mujoco]'")
  elif type(error).__name__ in ('NameNotFound', 'NamespaceNotFound'):
    cause += ' Your own are registered by a file, --import=FILE.py.'
  return config_lib.ConfigError(
      f'EnvironmentConfig.level: {level} cannot be made: {cause}')


def _convert_observations(env):
  """Wraps an environment whose observation is no single array."""
  converter = spaces.Converter(env.observation_space)
  if converter.is_plain:
    return env
  import gymnasium

  def convert(observation):
    observed = converter(observation)
    return observed._asdict() if converter.num_features else (
        observed.observation)

  return gymnasium.wrappers.TransformObservation(
      env, convert, converter.converted_space())


def _action_spec(level: str, space) -> specs.BoundedArray:
  """Makes the spec of actions; raises ConfigError if no policy has such."""
  kind = type(space).__name__
  if kind == 'Discrete':
    return environment.discrete(int(space.n))
  if kind == 'MultiDiscrete' and len(space.shape) == 1:
    return environment.multi_discrete(space.nvec)
  if (kind == 'Box' and len(space.shape) == 1
      and np.issubdtype(space.dtype, np.floating)):
    return environment.continuous(space.low, space.high)
  raise _unsupported(
      level, 'actions', space,
      'Discrete, MultiDiscrete [D] or Box [D] of floating numbers')


def _unsupported(level: str, what: str, space, wanted: str
                 ) -> config_lib.ConfigError:
  kind = type(space).__name__
  if space.shape is not None:
    kind += f' {list(space.shape)} of {space.dtype}'
  return config_lib.ConfigError(
      f'EnvironmentConfig.level: {level} has {what} of type {kind}, but only '
      f'{wanted} is supported')


DOMAIN = domain.Domain(
    forms=('gym/<id>',), check=_check, takes_kwargs=True,
    make=lambda env_id, num_envs, seed, config, training: GymEnvironment(
        env_id, num_envs, seed,
        kwargs=copy.deepcopy(config.environment.kwargs)))
