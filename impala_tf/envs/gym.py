"""Registered environments of Gymnasium; `spaces` says what they may observe."""

import contextlib
import copy
import ctypes.util
import importlib
import inspect
import os
import sys
from typing import Any, Callable, Iterator, Mapping, Sequence

from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import serial
from impala_tf.envs import spaces
from impala_tf.runs import metrics
from impala_tf.runtime import child
from impala_tf.runtime import user_modules
from impala_tf.storage import files

# Prefix of Gymnasium's ids of old Gym environments, which import any module.
_MADE_BY_NAME = 'GymV2'

# Wrappers whose statistics no checkpoint has.
_NORMALISERS = ('NormalizeObservation', 'NormalizeReward')


def check_module(level: str) -> None:
  """Raises ConfigError if Gymnasium would import an untrusted module.

  Configs may come from strangers, who must not run code by an id such as
  'gym/module:Name-v0'. So the user imports such modules with --import.
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
    except gymnasium.error.Error as error:
      raise _cannot_be_made(level, error) from error


class GymEnvironment(serial.SerialEnvironment):
  """E copies of one environment, stepped in turn within this process.

  `spaces` says what becomes of observations. Actions are `Discrete` or
  `MultiDiscrete` [D], counted from 0 whatever their `start` is, or a `Box` [D]
  of floats, to whose bounds they are fitted.

  Discrete actions are masked if the first `info` or a Dict of observations has
  an 'action_mask', or if there is a method `action_masks`. Then each step needs
  a mask (`spaces.flat_mask`). Of the last `info` of an episode the numbers
  under `episode_metric_names` are read; nothing else is.

  The environment's own time limit truncates.
  """

  def __init__(self, env_id: str, num_envs: int, seed: int,
               level: str | None = None, instruction_length: int = 0,
               kwargs: Mapping[str, Any] | None = None, converted: bool = True,
               pictures: bool = False, episode_metric_names: Sequence[str] = (),
               make: Callable[..., Any] | None = None):
    """Makes the environments of an id that Gymnasium has registered.

    `level` is for messages, by default 'gym/<env_id>'; `make` makes one of its
    seed and `kwargs`, instead of the id. If not `converted`, masks are looked
    for in the `info` alone; for `pictures` see `spaces.Converter`. Raises
    ConfigError if an environment cannot be made or reset, or has unfit spaces.
    """
    level = level or f'gym/{env_id}'
    self._first_resets: dict[int, Any] = {}
    simulators = serial.Simulators(
        _maker(level, env_id, kwargs or {}, make, self._first_resets),
        num_envs, seed)
    try:
      actions = simulators[0].action_space
      action_spec = _action_spec(level, actions)
      is_discrete = np.issubdtype(action_spec.dtype, np.integer)
      _check_alike(level, simulators)
      is_masked = any(
          spaces.MASK in info for _, info in self._first_resets.values())
      if is_masked and not is_discrete:
        raise _unsupported(level, 'a mask of actions', actions,
                           'one of Discrete or MultiDiscrete')
      seeks_masks = converted and is_discrete and not is_masked
      with _as_config_error(level):
        self._converter = spaces.Converter(
            simulators[0].observation_space, converted and pictures,
            environment.num_choices(action_spec).sum() if seeks_masks else 0)
      self._asks_for_masks = (
          seeks_masks and not self._converter.has_mask
          and simulators[0].has_wrapper_attr('action_masks'))
    except BaseException:
      simulators.close()
      raise
    super().__init__(
        level, simulators, action_spec, self._converter.observation_spec,
        instruction_length=instruction_length,
        num_features=self._converter.num_features,
        has_action_mask=(
            is_masked or self._converter.has_mask or self._asks_for_masks),
        episode_metric_names=episode_metric_names)
    self._num_values = np.atleast_1d(action_spec.maximum) + 1
    if not is_discrete:
      self._scale_actions(actions.low, actions.high)
    self.interface['observations'] = self._converter.description()
    self._has_warned: set[str] = set()
    self.remarks += [*self._converter.remarks, *(
        f'the statistics of the wrapper {name} are in no checkpoint, so that '
        'evaluation is worse than training; leave it out, and set '
        'AgentConfig.normalise_observations = True'
        for name in _normalisers(simulators[0]))]
    metadata = simulators[0].metadata or {}
    self.frames_per_sec = metadata.get('render_fps') or self.frames_per_sec
    # Only discrete actions have a `start`.
    self._first_action = np.asarray(getattr(actions, 'start', 0), actions.dtype)

  def _begin(self, i: int) -> np.ndarray:
    # The constructor's reset comes first.
    observation, info = (
        self._first_resets.pop(i, None) or self._simulators[i].reset())
    return self._observe(i, observation, info)

  def _advance(self, i: int, action: np.ndarray) -> serial.Transition:
    if self._is_discrete:
      action = (action + self._first_action).astype(self._first_action.dtype)
    try:
      observation, reward, terminated, truncated, info = (
          self._simulators[i].step(action))
    except ValueError as error:
      if 'values to unpack (expected 5' not in str(error):  # Or in a wrapper.
        raise
      raise config_lib.UserError(
          f'{self.level}: step of {self.moment_of(i)} must return 5 values '
          '(observation, reward, terminated, truncated, info), but there are '
          f'{error}') from error
    if terminated or truncated:
      for m, name in enumerate(self.episode_metric_names):
        self.episode_metrics[i, m] = _number(info.get(name))
        if name not in info:
          self._warn_once(name, f'an episode ended without {name!r} of '
                          'EnvironmentConfig.episode_metrics; its info has '
                          f'{", ".join(map(str, info)) or "nothing"}')
    if not terminated:
      observation = self._observe(i, observation, info, is_last=truncated)
    elif i == 0 and self.on_termination:
      self.on_termination()
    number = spaces.cast(np.asarray(reward), np.float64)
    if number is None or number.size != 1:
      raise config_lib.UserError(
          f'{self.level}: the reward of {self.moment_of(i)} must be one '
          f'number, but is {reward!r}')
    self._warn_unless_finite('reward', i, number.astype(np.float32))
    return serial.Transition(observation, number.item(), terminated, truncated)

  def _warn_unless_finite(self, what: str, i: int, numbers: np.ndarray) -> None:
    # The learner refuses such unrolls later, and cannot name the environment.
    if not np.isfinite(numbers).all():
      self._warn_once(what, f'the {what} of {self.name_of(i)} is not finite; '
                      'it is not learned from')

  def _warn_once(self, what: str, text: str) -> None:
    if what not in self._has_warned:
      self._has_warned.add(what)
      child.remark(f'{self.level}: {text}')

  def _observe(self, i: int, observation: Any, info: Mapping[str, Any],
               is_last: bool = False) -> np.ndarray:
    """Converts environment i's observation; stores its features and its mask.

    No action follows the last, which need have no mask, nor a good one. Raises
    UserError for other bad masks, and for what is not of the space.
    """
    try:
      observed = self._converter(observation)
    except spaces.SpaceError as error:
      raise config_lib.UserError(
          f'{self.level}: the observation of {self.moment_of(i)} {error}'
      ) from error
    if observed.observation.dtype != np.uint8:
      self._warn_unless_finite('observation', i, observed.observation)
    if self._converter.num_features:
      self._warn_unless_finite('observation', i, observed.features)
      self.features[i] = observed.features
    if len(self.action_mask):
      mask = observed.action_mask
      if self._asks_for_masks:
        mask = None if is_last else (
            self._simulators[i].get_wrapper_attr('action_masks')())
      elif not self._converter.has_mask:
        mask = info.get(spaces.MASK)
      if not is_last:
        self.action_mask[i] = self._flat_mask(i, mask)
      else:  # Action values of the last observation are masked by it.
        with contextlib.suppress(spaces.SpaceError):
          self.action_mask[i] = spaces.flat_mask(mask, self._num_values)
    elif self._is_discrete and spaces.MASK in info:
      self._warn_once(spaces.MASK, f'{spaces.MASK} in the info is ignored, '
                      'since no first reset had one')
    return observed.observation

  def _flat_mask(self, i: int, mask: Any) -> Any:
    what = f'the {spaces.MASK} of {self.name_of(i)}'
    try:
      return spaces.flat_mask(mask, self._num_values)
    except spaces.NothingLegal as error:
      self._warn_once(spaces.MASK, f'{what} {error}, so here all are allowed')
      return 1
    except spaces.SpaceError as error:
      raise config_lib.UserError(f'{self.level}: {what} {error}') from error

  def render(self) -> np.ndarray:
    picture = np.asarray(self._simulators[0].render())
    if picture.dtype.kind == 'f' and picture.max() <= 1:
      picture = picture * 255
    return picture.astype(np.uint8)

  def disable_conversions(
      self, names: Sequence[str] = environment.CONVERSIONS) -> None:
    super().disable_conversions(names)
    if 'observations' in names:
      self._converter.leave_scale()


def _number(value: Any) -> float:
  """Returns a value of an `info` if it is one finite number, else MISSING."""
  try:
    number = np.asarray(value, np.float32).item()
  except (OverflowError, TypeError, ValueError):
    return metrics.MISSING
  return number if np.isfinite(number) else metrics.MISSING


def _maker(level: str, env_id: str, kwargs: Mapping[str, Any],
           make: Callable[..., Any] | None, first_resets: dict[int, Any]
           ) -> Callable[[int, int], Any]:
  """Returns a function that makes environment i and resets it with a seed.

  Both raise ConfigError if that fails. Whether actions are masked must be known
  before the first step, so `first_resets` gets what `reset` returns.
  """
  gymnasium = _import()

  def make_and_reset(i, seed):
    with _as_config_error(level, kwargs):
      # A copy for each, since some constructors change their arguments.
      own = copy.deepcopy(dict(kwargs))
      env = make(seed, **own) if make else _make(gymnasium, env_id, own)
    try:
      with _as_config_error(level):
        observation, info = env.reset(seed=seed)
        first_resets[i] = copy.deepcopy(observation), {**info}  # No others.
    except BaseException:
      serial.close(env)
      raise
    return env

  return make_and_reset


@contextlib.contextmanager
def _as_config_error(level: str, kwargs: Mapping[str, Any] | None = None
                     ) -> Iterator[None]:
  """Makes a context that turns errors of the user's code into ConfigError.

  The code is a constructor with `kwargs`; without these, a reset.
  """
  try:
    yield
  except config_lib.ConfigError:
    raise
  except spaces.SpaceError as error:
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} has {error}') from error
  except serial.ERRORS as error:
    if kwargs is not None and isinstance(
        error, (_import().error.Error, ImportError)):
      raise _cannot_be_made(level, error) from error
    failure = 'cannot be reset (to observation, info)' if kwargs is None else (
        f'cannot be made with EnvironmentConfig.kwargs = {dict(kwargs)}')
    cause = serial.place_and_cause(error) if kwargs is None else _explain(error)
    raise config_lib.ConfigError(f'{level} {failure}: {cause}') from error


def _explain(error: BaseException) -> str:
  """Describes a constructor's error, with a hint if it rejects an argument."""
  cause = files.one_line(error, None).partition(' was raised from the env')[0]
  if isinstance(error, TypeError) and ' argument' in cause:
    return (f'{cause}; its constructor must take these, and no argument id, '
            'max_episode_steps or disable_env_checker, which Gymnasium keeps')
  return serial.place_and_cause(error)


def _import() -> Any:
  """Imports and returns Gymnasium, after a call of `draw_without_display`."""
  draw_without_display()
  import gymnasium
  return gymnasium


def draw_without_display() -> None:
  """Makes MuJoCo and pygame draw without a display; call it before they load.

  MuJoCo's default, GLFW, needs one, for videos and for tasks that draw
  themselves (dm_control's 'quadruped/escape'); pygame complains without one.
  MUJOCO_GL and SDL_VIDEODRIVER of the user's stay.
  """
  if os.environ.get('DISPLAY'):
    return
  os.environ.setdefault('SDL_VIDEODRIVER', 'dummy')
  if ctypes.util.find_library('EGL'):
    os.environ.setdefault('MUJOCO_GL', 'egl')


def _make(gymnasium: Any, env_id: str, kwargs: Mapping[str, Any]) -> Any:
  mode = _render_mode(gymnasium, env_id)
  try:
    return gymnasium.make(env_id, **{**mode, **kwargs})
  except TypeError as error:  # A function may hand its ** on.
    if (not mode or 'render_mode' in kwargs or
        "unexpected keyword argument 'render_mode'" not in str(error)):
      raise
    return gymnasium.make(env_id, **kwargs)


def _render_mode(gymnasium: Any, env_id: str) -> Mapping[str, str]:
  """Returns {'render_mode': 'rgb_array'} if a constructor takes it, else {}."""
  module, _, name = env_id.rpartition(':')
  if module:
    importlib.import_module(module)  # `check_module` has been passed.
  creator = gymnasium.spec(name).entry_point
  if isinstance(creator, str):
    creator = gymnasium.envs.registration.load_env_creator(creator)
  metadata = getattr(creator, 'metadata', None)  # A function has none.
  is_taken = any(taken.name == 'render_mode' or taken.kind is taken.VAR_KEYWORD
                 for taken in inspect.signature(creator).parameters.values())
  is_listed = not isinstance(metadata, dict) or (
      'rgb_array' in (metadata.get('render_modes') or ()))
  return {'render_mode': 'rgb_array'} if is_taken and is_listed else {}


def _normalisers(env: Any) -> list[str]:
  found = []
  while env is not env.unwrapped:
    names = [kind.__name__ for kind in type(env).__mro__]
    found += [name for name in _NORMALISERS if name in names]
    env = env.env
  return found


def _check_alike(level: str, simulators: serial.Simulators) -> None:
  for what in 'observation_space', 'action_space':
    first, *others = (
        getattr(simulators[i], what) for i in range(len(simulators)))
    for i, other in enumerate(others, 1):
      if other != first:
        raise config_lib.ConfigError(
            f'{level}: the {what} of copy 0 is {first}, but that of copy {i} '
            f'{other}; all copies must have the same')


def _cannot_be_made(level: str, error: Exception) -> config_lib.ConfigError:
  # Gymnasium names the nearest ids, and the package to install.
  cause = files.one_line(error, None)
  if cause.startswith('MuJoCo is not installed'):
    cause = ("it needs the package mujoco, the extra 'mujoco': "
             "pip install 'impala_tf[mujoco]'")
  elif type(error).__name__ in ('NameNotFound', 'NamespaceNotFound'):
    cause += ' Your own are registered by a file, --import=FILE.py.'
  return config_lib.ConfigError(
      f'EnvironmentConfig.level: {level} cannot be made: {cause}')


def _action_spec(level: str, space) -> specs.BoundedArray:
  kind = spaces.kind_of(space)
  if kind == 'Discrete':
    return environment.discrete(int(space.n))
  is_vector = space.shape and len(space.shape) == 1 and space.shape[0]
  if kind == 'MultiDiscrete' and is_vector:
    return environment.multi_discrete(space.nvec)
  if (kind == 'Box' and is_vector and np.issubdtype(space.dtype, np.floating)):
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


def _make_level(env_id: str, num_envs: int, seed: int,
                config: config_lib.Config, training: bool
                ) -> environment.BatchedEnvironment:
  kwargs = config.environment.kwargs
  _import()
  from impala_tf.envs import gym_cart_pole  # Lazily: it needs Gymnasium.
  names = config.environment.episode_metric_names
  if (training and gym_cart_pole.is_cart_pole(env_id)
      and not kwargs and not names):
    return gym_cart_pole.CartPoleEnvironment(env_id, num_envs, seed)
  return GymEnvironment(
      env_id, num_envs, seed, kwargs=kwargs,
      converted=config.environment.converted,
      pictures=config.agent.sees_pictures, episode_metric_names=names)


DOMAIN = domain.Domain(
    forms=('gym/<id>',), check=_check, make=_make_level, takes_kwargs=True,
    has_info=True)
