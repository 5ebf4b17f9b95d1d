"""Tasks of dm_control: bodies to be moved, observed as vectors.

The suite is that of Tassa et al. 2018 ("DeepMind Control Suite",
arXiv:1801.00690), simulated by MuJoCo.
"""

import difflib

from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import display
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import serial

_EPISODE_STEPS = 1000  # In all tasks of the suite but 'lqr'.
_HEIGHT, _WIDTH = 240, 320  # Pixels of videos.


class ControlEnvironment(serial.SerialEnvironment):
  """E copies of one task, stepped in turn within this process.

  Actions are vectors, clipped to the task's bounds (-1 and 1 in the suite). A
  task's named observations are concatenated in its order: one float32 vector.
  Rewards are raw, 0 to 1 a step.

  The time limit of 1,000 steps truncates. If a task terminates, the discount is
  0. The domain 'lqr' is left out: it has no time
  limit, and only a policy without noise reaches its end.

  Environment i is seeded with `seed + i`.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               staggered: bool = False):
    """Makes the environments of '<domain>/<task>', as in `suite`.

    With `staggered`, environment i's first episode is truncated after (i + 1) /
    E of its steps. Otherwise all episodes end in the same step, and a batch
    holds only beginnings, or only ends. Raises ConfigError for an unknown task.
    """
    display.draw_without_display()
    from dm_control import suite  # Lazily: it is a simulator.
    from dm_control.rl import control
    self._key = control.FLAT_OBSERVATION_KEY
    tasks = ['/'.join(pair) for pair in suite.ALL_TASKS if pair[0] != 'lqr']
    if name not in tasks:
      near = difflib.get_close_matches(name, tasks, n=1)
      hint = f'did you mean control/{near[0]}?' if near else (
          'choose from ' + ', '.join(tasks))
      raise config_lib.ConfigError(
          f'EnvironmentConfig.level: {name!r} is no task of dm_control with a '
          f'limit of time; {hint}')
    self._envs = [
        suite.load(*name.split('/'), task_kwargs={'random': seed + i},
                   environment_kwargs={'flat_observation': True})
        for i in range(num_envs)]
    actions = self._envs[0].action_spec()
    shape = self._envs[0].observation_spec()[self._key].shape
    super().__init__(
        f'control/{name}', num_envs,
        environment.continuous(actions.minimum, actions.maximum),
        observation_spec=specs.Array(shape, np.float32, 'observation'))
    self.frames_per_sec = 1 / self._envs[0].control_timestep()
    # Steps after which first episodes are truncated; 0 if they are not.
    self._first_limit = np.zeros(num_envs, np.int64)
    if staggered:
      shares = np.arange(1, num_envs + 1) / num_envs
      self._first_limit[:] = _EPISODE_STEPS * shares
    self._num_steps = np.zeros(num_envs, np.int64)

  def _begin(self, i: int) -> np.ndarray:
    return self._envs[i].reset().observation[self._key]

  def _advance(self, i: int, action: np.ndarray) -> serial.Transition:
    timestep = self._envs[i].step(action)
    self._num_steps[i] += 1
    return serial.Transition(
        timestep.observation[self._key], timestep.reward,
        terminated=timestep.discount == 0,
        truncated=(timestep.last()
                   or self._num_steps[i] == self._first_limit[i]))

  def render(self) -> np.ndarray:
    return self._envs[0].physics.render(_HEIGHT, _WIDTH, camera_id=0)

  def close(self) -> None:
    for env in self._envs:
      env.close()


# Tasks are checked as they are made: their names are dm_control's.
DOMAIN = domain.Domain(
    forms=('control/<domain>/<task>',),
    check=lambda name: domain.check_installed('dm_control', 'dm_control'),
    make=lambda name, num_envs, seed, config, training: ControlEnvironment(
        name, num_envs, seed, staggered=training))
