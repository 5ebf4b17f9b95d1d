"""Evaluations: full games with fixed parameters, in training or after it.

The evaluator plays them beside training, always with the newest parameters.
"""

import functools
import math
import os
import time
from typing import Callable, Iterable, Mapping, NamedTuple

from absl import logging
import dm_env
import numpy as np

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.envs import environment as environment_lib
from impala_tf.runs import metrics
from impala_tf.runs import video
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals
from impala_tf.runtime import waiting
from impala_tf.suites import levels as levels_lib

_FIRST_REPORT_SECS = 10.
_MOST_LOST = 10  # Games beyond the number of finished ones.
_MAX_ENVS = 32
_POLL_SECS = 0.5
_VIDEOS = 'videos'  # In the output directory.
_VIDEO_NAME = '{:012d}'  # Its beginning, so that names sort by frames.


class Evaluation(NamedTuple):
  """Results of the games of an evaluation."""
  returns: list[float]  # Sum of raw rewards of each episode.
  frames: list[int]  # Environment frames of each episode.
  # Numbers of `EnvironmentConfig.episode_metrics`, by name.
  metrics: Mapping[str, list[float]] = {}
  num_cut: int = 0  # Episodes that were cut off at the limit of frames.
  # Ctrl-C that has ended it; None if it is complete.
  interruption: KeyboardInterrupt | None = None

  def summary(self) -> dict:
    """Computes the returns' mean, its standard error, median and extremes."""
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
        **{f'episode/{name}': float(np.mean(values))
           for name, values in self.metrics.items() if values},
        **({'episodes_cut': self.num_cut} if self.num_cut else {}),
    }


def joined(results: Iterable[Evaluation]) -> Evaluation:
  """Joins evaluations of several levels, which have the same metrics."""
  returns, frames, reported, num_cut, _ = zip(*results)
  return Evaluation(sum(returns, []), sum(frames, []), {
      name: sum((values[name] for values in reported), [])
      for name in reported[0]}, sum(num_cut))


class _Games:
  """The games that each environment still has to play, and results so far."""

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
    self.returns: list[float] = []
    self.frames: list[int] = []
    self.metrics: dict[str, list[float]] = {
        name: [] for name in environment.episode_metric_names}

  def are_left(self) -> bool:
    """Whether any environment has games left and a game that is not cut off."""
    return bool(np.any((self._left > 0) & ~self._is_cut))

  def add(self, env_output: types.EnvOutput) -> None:
    """Adds results of games that ended or reached `max_frames` in this step."""
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
        value = env_output.episode_metrics[e, m]
        if value != metrics.MISSING:
          numbers.append(float(value))
    # A game that was cut off goes on, and ends uncounted.
    self._is_cut = (self._is_cut | is_late) & ~is_first
    self.num_ended_first += bool(is_first[0] or is_late[0])


def evaluate(agent: agent_lib.Agent,
             environment: environment_lib.BatchedEnvironment, num_episodes: int,
             seed: int, on_step: Callable[[int], None] = lambda num_ended: None,
             deterministic: bool = False, max_frames: float = math.inf,
             say: Callable[[str], None] = lambda text: None,
             clock: Callable[[], float] = time.monotonic) -> Evaluation:
  """Plays full games, carrying the core state on.

  Each environment plays its share of the episodes: taking the first that end
  would favour short ones. An episode that goes beyond `max_frames` counts with
  its return until then; unless it ends while others are played, its environment
  plays no more. Ctrl-C ends it with the episodes that are over.

  `deterministic` takes the most probable actions. `on_step` gets the number of
  episodes that the first environment has ended, also at the beginning. `say`
  gets a line of progress after 10 s, 20 s, 40 s and so on.
  """
  num_envs = environment.num_envs
  policy = acting.Policy(agent, num_envs, seed, deterministic)
  counter = acting.EpisodeCounter(num_envs, environment.reward_scale)
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


def make_row(updates: int, frames: int,
             results: Mapping[str, Evaluation]) -> metrics.Row:
  """Makes the row of metrics of one evaluation from its games on each level.

  `frames` and `updates` are those behind the parameters; `episode_frames` is
  the mean length of a game. With several levels each has its mean return,
  standard error and metrics under 'level/<name>/'.
  """
  summary = joined(results.values()).summary()
  row = {'frames': frames, 'updates': updates,
         'episodes': summary['episodes'],
         'episode_frames': summary['mean_episode_frames'],
         **_mean_and_error('', summary)}
  if 'episodes_cut' in summary:
    row['episodes_cut'] = summary['episodes_cut']
  if len(results) > 1:
    row.pop('standard_error', None)  # It would measure how levels differ.
    for level, result in results.items():
      row.update(_mean_and_error(f'level/{level}/', result.summary()))
  return row


def _mean_and_error(prefix: str, summary: dict) -> metrics.Row:
  # Named as in training's rows, for plots.
  row = {f'{prefix}episode_return': summary['mean'],
         **{prefix + name: summary[name] for name in summary
            if name.startswith('episode/')}}
  if summary['standard_error'] is not None:
    row[f'{prefix}standard_error'] = summary['standard_error']
  return row


class Evaluator:
  """An agent that plays full games with a learner's newest parameters."""

  def __init__(self, config: config_lib.Config, address: str, output_dir: str,
               seed: int, poll: waiting.PollFn):
    """Waits for the learner's first parameters, and calls `poll` meanwhile.

    Rows and videos of lost learning are dropped from `output_dir`. Raises
    ConnectionError if the learner does not answer, or has another config.
    """
    # Here, since evaluation after training does without Reverb.
    from impala_tf.comms import config_table
    from impala_tf.core import experiment
    from impala_tf.core import weights
    self._config = config
    self._seed = seed
    levels = levels_lib.expand(config.environment.level)
    self._levels = {level: config.replaced('environment', level=level)
                    for level in levels}
    # Constructors see slot numbers that no actor's environment has.
    actor = sizing.fit(config).actor
    self._make_environment = functools.partial(
        experiment.make_environment, training=False, first_slot=max(
            sizing.fitted(actor.num_actors) * sizing.fitted(actor.num_envs),
            sizing.num_workers(config, 1)))
    with stop_signals.Closing(self._make_environment(
        self._levels[levels[0]], 1, seed)) as environment:
      self._agent = experiment.make_agent(config, environment)
    self._fetcher = weights.Fetcher(
        address, self._agent.published_variables,
        config_table.table_name(config))
    self._fetcher.wait(poll)
    metrics.drop_rows_after(output_dir, self._fetcher.frames)
    rows = metrics.read_rows(output_dir)
    self._evaluated = rows[-1]['updates'] if rows else None
    self._writer = metrics.MetricsWriter(output_dir)
    self._videos = video.NewestVideos(
        os.path.join(output_dir, _VIDEOS),
        config.experiment.evaluation_video_interval_secs)
    self._videos.drop_from(_VIDEO_NAME.format(self._fetcher.frames + 1))

  def run_once(self) -> metrics.Row | None:
    """Plays with newer parameters and writes a row; None if there are none."""
    from impala_tf.core import experiment
    updates = self._fetcher.fetch()
    assert updates is not None  # `__init__` waited for some.
    if updates == self._evaluated:
      return None
    options, results = self._config.experiment, {}
    episodes = options.evaluation_episodes
    for i, (level, config) in enumerate(self._levels.items()):
      # Other games each time: those of one seed may be easier than others.
      environment_seed, policy_seed = experiment.make_seeds(
          self._seed, updates, i)
      name = _VIDEO_NAME.format(self._fetcher.frames)
      with stop_signals.Closing(self._make_environment(
          config, min(episodes, _MAX_ENVS), environment_seed)) as environment, (
              self._videos.filming(
                  environment, f'{name}_{level.replace("/", "_")}')) as on_step:
        results[level] = evaluate(
            self._agent, environment, episodes, policy_seed, on_step,
            max_frames=options.evaluation_max_frames,
            say=functools.partial(logging.info, '%s: %s', level))
      if (interruption := results[level].interruption) is not None:
        raise interruption
    row = make_row(updates, self._fetcher.frames, results)
    self._writer.write(row)
    self._evaluated = updates
    return row


def run_evaluator(config: config_lib.Config, address: str, output_dir: str,
                  seed: int, poll: waiting.PollFn,
                  on_row: Callable[[metrics.Row], None]) -> None:
  """Runs an evaluator's process, which plays until KeyboardInterrupt.

  For arguments and errors see `Evaluator`; `on_row` is called with each row.
  """
  sizing.set_threads(1)
  evaluator = Evaluator(config, address, output_dir, seed, poll)
  while True:
    start = time.monotonic()
    row = evaluator.run_once()
    if row is None:
      time.sleep(_POLL_SECS)
      continue
    on_row(row)
    time.sleep(max(0., start - time.monotonic() +
                   config.experiment.evaluation_interval_secs))
