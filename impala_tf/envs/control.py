"""Tasks of dm_control: bodies to be moved, observed as vectors.

The suite is that of Tassa et al. 2018 ("DeepMind Control Suite",
arXiv:1801.00690), simulated by MuJoCo.
"""

import numpy as np

from impala_tf.envs import dm_environment
from impala_tf.envs import domain
from impala_tf.envs import gym
from impala_tf.envs import serial

_EPISODE_STEPS = 1000  # In all tasks of the suite but 'lqr'.


class ControlEnvironment(gym.GymEnvironment):
  """E copies of one task, stepped in turn within this process.

  A task's named observations are concatenated in its order: one float32 vector.
  Rewards are raw, 0 to 1 a step.

  The time limit of 1,000 steps truncates. If a task terminates, the discount is
  0. The domain 'lqr' is left out: it has no time limit, and only a policy
  without noise reaches its end.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               staggered: bool = False):
    """Makes the environments of '<domain>/<task>', a task of dm_control.

    With `staggered`, first episodes are cut at other shares of their steps in
    each environment of the run. Otherwise all end in the same step, and a batch
    holds only beginnings, or only ends. Raises ConfigError for an unknown task.
    """
    gym.draw_without_display()
    from dm_control import suite  # Lazily: it is a simulator.
    tasks = ['/'.join(pair) for pair in suite.ALL_TASKS if pair[0] != 'lqr']
    domain.check_known(
        name, 'control/{}', tasks,
        f'tasks with a limit of time are {", ".join(tasks)}')

    def make(seed):
      return dm_environment.AsGymnasium(suite.load(
          *name.split('/'), task_kwargs={'random': seed},
          environment_kwargs={'flat_observation': True}))

    super().__init__(name, num_envs, seed, f'control/{name}', make=make)
    # Steps after which first episodes are truncated; 0 if they are not. By the
    # golden ratio they are spread evenly, whatever the number of environments.
    shares = (np.array(self._numbers[:num_envs]) + 1) * 0.618 % 1 * staggered
    self._first_limit = (_EPISODE_STEPS * shares).astype(np.int64)
    self._num_steps = np.zeros(num_envs, np.int64)

  def _advance(self, i: int, action: np.ndarray) -> serial.Transition:
    transition = super()._advance(i, action)
    self._num_steps[i] += 1
    return transition._replace(
        truncated=(transition.truncated
                   or self._num_steps[i] == self._first_limit[i]))


# Tasks are checked as they are made: their names are dm_control's.
DOMAIN = domain.Domain(
    forms=('control/<domain>/<task>',),
    check=lambda name: domain.check_installed('dm_control', 'dm_control'),
    make=lambda name, num_envs, seed, config, training: ControlEnvironment(
        name, num_envs, seed, staggered=training))
