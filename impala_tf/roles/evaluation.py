"""Plays full episodes with fixed parameters."""

import math
import time
from typing import Callable, Iterable, List, Mapping, NamedTuple, Optional

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


class Reporter:
  """A reporter of progress, less often the longer an evaluation takes."""

  def __init__(self, num_episodes: int, say: Callable[[str], None],
               clock: Callable[[], float] = time.monotonic):
    self._num_episodes = num_episodes
    self._say = say
    self._clock = clock
    self._start = clock()
    self._next_secs = _FIRST_REPORT_SECS

  def __call__(self, num_ended: int, frames: int) -> None:
    """Says how far it is after 10 s, 20 s, 40 s and so on."""
    if self._clock() - self._start >= self._next_secs:
      self._next_secs *= 2
      self._say(f'{num_ended} of {self._num_episodes} games are over, '
                f'{frames:,} frames')


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
    self.num_steps = 0
    self.num_cut = 0
    self.result = Evaluation([], [], {
        name: [] for name in environment.episode_metric_names})

  def are_left(self) -> bool:
    """Whether an environment has to play on, and its game is not cut off."""
    return bool(np.any((self._left > 0) & ~self._is_cut))

  def add(self, env_output: types.EnvOutput) -> None:
    """Adds the games that have ended, or have reached the limit, in a step."""
    self.num_steps += 1
    # A game that is lost with its simulator, with 0 steps, is played again.
    is_first = env_output.step_type == int(dm_env.StepType.FIRST)
    is_lost = is_first & (env_output.episode_steps == 0)
    self._num_lost += np.count_nonzero(is_lost)
    if self._num_lost > _MOST_LOST + len(self.result.returns):
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
      self._add_game(env_output, e, is_cut=is_late[e])
    # A game that was cut off goes on, and ends uncounted.
    self._is_cut = (self._is_cut | is_late) & ~is_first
    self.num_ended_first += bool(is_first[0] or is_late[0])

  def _add_game(self, env_output: types.EnvOutput, e: int, is_cut: bool):
    result = self.result
    result.returns.append(float(env_output.episode_return[e]))
    result.frames.append(int(
        env_output.episode_steps[e]) * self._environment.frames_per_step)
    if is_cut:
      self.num_cut += 1
      return
    for m, numbers in enumerate(result.metrics.values()):
      numbers.extend(metrics.reported(env_output.episode_metrics[e, m:m + 1]))


def evaluate(agent: agent_lib.Agent,
             environment: environment_lib.BatchedEnvironment,
             num_episodes: int, seed: int,
             on_step: Callable[[int], None] = lambda num_ended: None,
             deterministic: bool = False, max_frames: float = math.inf,
             on_progress: Callable[[int, int], None] =
             lambda num_ended, frames: None) -> Evaluation:
  """Plays by the paper's protocol: sampled actions, memory carried along.

  Each environment plays its share of the episodes: taking the first that end
  would favour short ones. An episode that goes beyond `max_frames` counts with
  its return until then; unless it ends while others are played, its environment
  plays no more. Ctrl-C ends it with the episodes that are over.

  `deterministic` takes the most probable actions. `on_step` gets the number of
  episodes that the first environment has ended, also at the beginning. After
  each step `on_progress` gets the numbers of all ended episodes and of frames.
  """
  num_envs = environment.num_envs
  policy = policy_lib.Policy(agent, num_envs, seed, deterministic)
  counter = policy_lib.EpisodeCounter(num_envs, environment.reward_scale)
  games = _Games(environment, num_episodes, max_frames)
  interruption = None
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
      on_progress(
          len(games.result.returns),
          games.num_steps * num_envs * environment.frames_per_step)
  except KeyboardInterrupt as error:
    interruption = error
  return games.result._replace(
      num_cut=games.num_cut, interruption=interruption)
