"""Plays full episodes with fixed parameters."""

import math
import time
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

import dm_env
import numpy as np

from impala_tf import types
from impala_tf.agents import acting as policy_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.envs import environment as environment_lib
from impala_tf.runs import metrics

_FIRST_REPORT_SECS = 10.
_MOST_LOST = 10  # Games beyond as many as are over.


class Evaluation(NamedTuple):
  """The games of an evaluation."""
  returns: List[float]  # Sum of raw rewards of each episode.
  frames: List[int]  # Environment frames of each episode.
  # Numbers of `EnvironmentConfig.episode_metrics`, by name.
  metrics: Mapping[str, List[float]] = {}
  num_cut: int = 0  # Episodes that were cut off at the limit of frames.
  # Ctrl-C that has ended it; None if it is complete.
  interruption: Optional[KeyboardInterrupt] = None

  def summary(self) -> dict:
    """Computes mean, median, standard error of the mean and extremes."""
    returns = np.asarray(self.returns)
    error = None  # One episode has no spread.
    if len(returns) > 1:
      error = float(np.std(returns, ddof=1) / np.sqrt(len(returns)))
    return {
        'episodes': len(returns),
        'mean': float(np.mean(returns)),
        'median': float(np.median(returns)),
        'standard_error': error,
        'min': float(np.min(returns)),
        'max': float(np.max(returns)),
        'mean_episode_frames': float(np.mean(self.frames)),
        **metrics.mean_by_column(self.metrics),
        **({'episodes_cut': self.num_cut} if self.num_cut else {}),
    }


def joined(results: Iterable[Evaluation]) -> Evaluation:
  """Puts evaluations of several levels, with the same metrics, together."""
  returns, frames, reported, num_cut, _ = zip(*results)
  return Evaluation(sum(returns, []), sum(frames, []), {
      name: sum((values[name] for values in reported), [])
      for name in reported[0]}, sum(num_cut))


class _Games:
  """The share of the games that each environment has to play, and results."""

  def __init__(self, environment: environment_lib.BatchedEnvironment,
               num_episodes: int, max_frames: float):
    num_envs = environment.num_envs
    self._environment = environment
    self._max_frames = max_frames
    self._left = np.full(num_envs, num_episodes // num_envs)
    self._left[:num_episodes % num_envs] += 1
    self._is_cut = np.zeros(num_envs, bool)
    self._num_lost = 0
    self.num_ended_first = 0
    self.num_cut = 0
    self.returns: List[float] = []
    self.frames: List[int] = []
    self.metrics: Dict[str, List[float]] = {
        name: [] for name in environment.episode_metric_names}

  def are_left(self) -> bool:
    """Whether an environment has to play on, and its game is not cut off."""
    return bool(np.any((self._left > 0) & ~self._is_cut))

  def add(self, env_output: types.EnvOutput) -> None:
    """Adds the games that have ended, or have reached the limit, in a step."""
    # A game that is lost with its simulator, with 0 steps, is played again.
    is_first = env_output.step_type == int(dm_env.StepType.FIRST)
    is_lost = is_first & (env_output.episode_steps == 0)
    self._num_lost += np.count_nonzero(is_lost)
    if self._num_lost > _MOST_LOST + len(self.returns):
      raise environment_lib.SimulatorError(
          f'{self._environment.level}: {self._num_lost} games were lost, more '
          'than were over: its simulator fails too often, or a time limit is '
          'no LAST step (docs/own_environment.md)')
    is_first &= ~is_lost
    frames = env_output.episode_steps * self._environment.frames_per_step
    is_late = (env_output.step_type == int(dm_env.StepType.MID)) & (
        frames >= self._max_frames)
    for e in np.flatnonzero(
        (is_first | is_late) & ~self._is_cut & (self._left > 0)):
      self._left[e] -= 1
      self.returns.append(float(env_output.episode_return[e]))
      self.frames.append(int(frames[e]))
      if is_late[e]:
        self.num_cut += 1
        continue
      for m, numbers in enumerate(self.metrics.values()):
        numbers.extend(metrics.reported(env_output.episode_metrics[e, m:m + 1]))
    # A game that was cut off goes on, and ends uncounted.
    self._is_cut = (self._is_cut | is_late) & ~is_first
    self.num_ended_first += bool(is_first[0] or is_late[0])


def evaluate(agent: agent_lib.Agent,
             environment: environment_lib.BatchedEnvironment,
             num_episodes: int, seed: int,
             on_step: Callable[[int], None] = lambda num_ended: None,
             deterministic: bool = False, max_frames: float = math.inf,
             say: Callable[[str], None] = lambda text: None,
             clock: Callable[[], float] = time.monotonic) -> Evaluation:
  """Plays by the paper's protocol: sampled actions, memory carried along.

  Each environment plays its share of the episodes: taking the first that end
  would favour short ones. An episode that goes beyond `max_frames` counts with
  its return until then; unless it ends while others are played, its environment
  plays no more. Ctrl-C ends it with the episodes that are over.

  `deterministic` takes the most probable actions. `on_step` gets the number of
  episodes that the first environment has ended, also at the beginning. `say`
  gets a line of progress after 10 s, 20 s, 40 s and so on.
  """
  num_envs = environment.num_envs
  policy = policy_lib.Policy(agent, num_envs, seed, deterministic)
  counter = policy_lib.EpisodeCounter(num_envs, environment.reward_scale)
  games = _Games(environment, num_episodes, max_frames)
  interruption = None
  num_steps, start, report_secs = 0, clock(), _FIRST_REPORT_SECS
  try:
    env_output = counter.env_output(
        environment.reset(), environment.side_channels)
    on_step(0)
    while games.are_left():
      actions = policy.act(env_output).action
      env_output = counter.env_output(
          environment.step(actions), environment.side_channels)
      games.add(env_output)
      on_step(games.num_ended_first)
      num_steps += num_envs
      if clock() - start >= report_secs:
        report_secs *= 2
        say(f'{len(games.returns)} of {num_episodes} games are over, '
            f'{num_steps * environment.frames_per_step:,} frames')
  except KeyboardInterrupt as error:
    interruption = error
  return Evaluation(games.returns, games.frames, games.metrics, games.num_cut,
                    interruption)
