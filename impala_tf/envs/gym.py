"""Registered environments of Gymnasium with discrete or continuous actions."""

import os
from typing import Any, Callable, Optional, Sequence

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import display
from impala_tf.envs import domain
from impala_tf.envs import environment

# Environment variable: names of modules, with commas between them, that
# Gymnasium may import for an id.
TRUSTED_MODULES = 'IMPALA_TF_TRUSTED_MODULES'


def check_module(level: str) -> None:
  """Refuses a level for which Gymnasium would import a module unasked.

  Its ids may be 'module:Name-v0', and configs may come from strangers. So that
  configs cannot run code, the user has to name such modules in the environment
  variable IMPALA_TF_TRUSTED_MODULES.

  Args:
    level: name with its domain, such as 'gym/module:Name-v0'.

  Raises:
    ConfigError: where the user has not named the module.
  """
  module, colon, _ = level.partition('/')[2].partition(':')
  trusted = os.environ.get(TRUSTED_MODULES, '').split(',')
  if colon and not (module and module in trusted):
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} has the module {module!r} imported, '
        f'which runs its code; if you trust it, set {TRUSTED_MODULES}={module}')


class GymEnvironment(environment.BatchedEnvironment):
  """E copies of one environment, stepped in turn within this process.

  Observations must be a `Box`: uint8 stays uint8, other types become float32.
  Actions are `Discrete`, counted from 0 here whatever their `start` is, or a
  `Box` [D] of floating numbers, to whose bounds they are clipped.
  An environment's own time limit truncates: discount 1 with FIRST. Termination
  wins where both fall on one step.

  Environment i is seeded with `seed + i`.
  """

  def __init__(self, env_id: str, num_envs: int, seed: int,
               level: Optional[str] = None,
               wrappers: Sequence[Callable[[Any], Any]] = (),
               instruction_length: int = 0):
    """Makes the environments.

    Args:
      env_id: id that Gymnasium has registered, such as 'CartPole-v1'. For
        'module:Name-v0' it imports the module first; see `check_module`.
      num_envs: E.
      seed: 0 or more.
      level: name for messages; None for 'gym/<env_id>'.
      wrappers: wrappers of Gymnasium that are put around each environment, in
        this order.
      instruction_length: L of the base class, where there are instructions.

    Raises:
      ConfigError: where Gymnasium or the environment is not installed, where it
        cannot be made, or where it has other spaces than those above.
    """
    level = level or f'gym/{env_id}'
    self._envs = _make(level, env_id, num_envs, wrappers)
    observations = self._envs.single_observation_space
    try:
      action_spec = _action_spec(level, self._envs.single_action_space)
      if type(observations).__name__ != 'Box':
        raise _unsupported(level, 'observations', observations, 'Box')
    except config_lib.ConfigError:
      self._envs.close()
      raise
    is_bytes = observations.dtype == np.uint8
    self._dtype = np.uint8 if is_bytes else np.float32
    super().__init__(
        level, num_envs, action_spec,
        observation_spec=specs.Array(
            observations.shape, self._dtype, 'observation'),
        instruction_length=instruction_length)
    metadata = self._envs.metadata or {}
    self.frames_per_sec = metadata.get('render_fps', self.frames_per_sec)
    # Only discrete actions have a `start`.
    self._first_action = int(
        getattr(self._envs.single_action_space, 'start', 0))
    self._seed = seed

  def reset(self) -> dm_env.TimeStep:
    observation, _ = self._envs.reset(seed=self._seed)
    self._seed = None
    return self._first(observation.astype(self._dtype, copy=False))

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    observation, reward, terminated, truncated, _ = self._envs.step(
        actions + self._first_action)
    step_type = np.where(terminated | truncated, dm_env.StepType.FIRST,
                         dm_env.StepType.MID)
    return dm_env.TimeStep(
        step_type=step_type.astype(np.uint8),
        reward=reward.astype(np.float32),
        discount=(~terminated).astype(np.float32),
        observation=observation.astype(self._dtype, copy=False))

  def render(self) -> np.ndarray:
    # The batch's own `render` would draw every environment.
    return np.asarray(self._envs.envs[0].render(), np.uint8)

  def close(self) -> None:
    self._envs.close()


def _make(level: str, env_id: str, num_envs: int,
          wrappers: Sequence[Callable[[Any], Any]]):
  """Makes a `gymnasium.vector.SyncVectorEnv`; raises ConfigError."""
  display.draw_without_display()
  try:
    import gymnasium  # Lazily: it and what it registers are simulators.
  except ImportError as e:
    raise config_lib.ConfigError(
        f'{level} needs the package gymnasium: pip install gymnasium'
    ) from e
  same_step = gymnasium.vector.AutoresetMode.SAME_STEP
  try:
    return gymnasium.make_vec(
        env_id, num_envs, vectorization_mode='sync',
        vector_kwargs={'autoreset_mode': same_step, 'copy': False},
        wrappers=wrappers, render_mode='rgb_array')
  except (gymnasium.error.Error, ImportError) as e:
    # Gymnasium names the nearest ids, and the package to install.
    cause = str(e)
    if cause.startswith('MuJoCo is not installed'):
      cause = ("it needs the package mujoco, the extra 'mujoco': "
               "pip install -c constraints.txt -e '.[mujoco]'")
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: {level} cannot be made: {cause}') from e


def _action_spec(level: str, space) -> specs.BoundedArray:
  """Makes the spec of actions; raises ConfigError where no policy has such."""
  kind = type(space).__name__
  if kind == 'Discrete':
    return environment.discrete(int(space.n))
  if (kind == 'Box' and len(space.shape) == 1
      and np.issubdtype(space.dtype, np.floating)):
    return environment.continuous(space.low, space.high)
  raise _unsupported(
      level, 'actions', space, 'Discrete or Box [D] of floating numbers')


def _unsupported(level: str, what: str, space, wanted: str
                 ) -> config_lib.ConfigError:
  kind = type(space).__name__
  if space.shape is not None:
    kind += f' {list(space.shape)} of {space.dtype}'
  return config_lib.ConfigError(
      f'EnvironmentConfig.level: {level} has {what} of type {kind}, but only '
      f'{wanted} is supported')


def _make_environment(env_id: str, num_envs: int, seed: int, *unused
                      ) -> GymEnvironment:
  return GymEnvironment(env_id, num_envs, seed)


DOMAIN = domain.Domain(
    forms=('gym/<id>',), check=lambda env_id: check_module(f'gym/{env_id}'),
    make=_make_environment)
