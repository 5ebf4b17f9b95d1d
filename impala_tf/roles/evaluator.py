"""The evaluator: plays full games with the newest parameters, again and again.

It follows the protocol of `evaluation`, beside training.
"""

import dataclasses
import functools
import os
import time
from typing import Callable, Mapping, Optional

from absl import logging

from impala_tf import config as config_lib
from impala_tf.comms import config_table
from impala_tf.core import experiment
from impala_tf.core import weights
from impala_tf.roles import evaluation
from impala_tf.runs import metrics
from impala_tf.runs import video
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals
from impala_tf.runtime import tf_threads
from impala_tf.runtime import waiting
from impala_tf.suites import levels as levels_lib

_MAX_ENVS = 32
_POLL_SECS = 0.5
_VIDEOS = 'videos'  # In the output directory.
_VIDEO_NAME = '{:012d}'  # Its beginning, so that names sort by frames.


def make_row(updates: int, frames: int,
             results: Mapping[str, evaluation.Evaluation]) -> metrics.Row:
  """Makes the row of metrics of one evaluation, whose games come by level.

  `frames` and `updates` are those behind the parameters; `episode_frames` is
  the mean length of a game. With several levels each has its mean return,
  standard error and metrics under 'level/<name>/'.
  """
  summary = evaluation.joined(results.values()).summary()
  row = {'frames': frames, 'updates': updates,
         'episodes': summary['episodes'],
         'episode_frames': summary['mean_episode_frames'],
         **_mean_and_error('', summary)}
  if 'episodes_cut' in summary:
    row['episodes_cut'] = summary['episodes_cut']
  if len(results) > 1:
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
    """Connects, and waits for the first parameters with `poll`.

    Rows and videos of lost learning are dropped from `output_dir`. Raises
    ConnectionError if the learner does not answer, or has another config.
    """
    self._config = config
    self._seed = seed
    levels = levels_lib.expand(config.environment.level)
    self._levels = {level: dataclasses.replace(
        config, environment=dataclasses.replace(
            config.environment, level=level)) for level in levels}
    # Constructors can read numbers that no actor's copies have.
    actor = sizing.fit(config).actor
    self._first_slot = max(
        sizing.fitted(actor.num_actors) * sizing.fitted(actor.num_envs),
        sizing.num_workers(config, 1))
    with stop_signals.Closing(
        self._make_environment(levels[0], 1, seed)) as environment:
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

  def _make_environment(self, level: str, num_envs: int, seed: int):
    return experiment.make_environment(
        self._levels[level], num_envs, seed, training=False,
        first_slot=self._first_slot)

  def run_once(self) -> Optional[metrics.Row]:
    """Fetches, plays and writes a row; returns None if nothing is newer."""
    updates = self._fetcher.fetch()
    assert updates is not None  # `__init__` waited for some.
    if updates == self._evaluated:
      return None
    options, results = self._config.experiment, {}
    episodes = options.evaluation_episodes
    for i, level in enumerate(self._levels):
      # Other games each time: those of one seed may be easier than others.
      environment_seed, policy_seed = experiment.make_seeds(
          self._seed, updates, i)
      name = _VIDEO_NAME.format(self._fetcher.frames)
      with stop_signals.Closing(self._make_environment(
          level, min(episodes, _MAX_ENVS), environment_seed)) as environment, (
              self._videos.filming(
                  environment, f'{name}_{level.replace("/", "_")}')) as on_step:
        results[level] = evaluation.evaluate(
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
  tf_threads.set_threads(1)
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
