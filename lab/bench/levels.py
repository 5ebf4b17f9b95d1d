"""Measures how fast levels are stepped and reset, one level after the other.

    python -m lab.bench.levels configs/dmlab30/multitask_shallow.gin

Plays each level of a config with random actions, in a separate environment
process, as actors with `ActorConfig.env_processes` do. A level that cannot be
played has its reason in the table, and the others go on. If other processes
take the cores, CPU times are still right.
"""

import argparse
import csv
import dataclasses
import statistics
import sys
import time
from typing import Any, NamedTuple, Sequence

import numpy as np
import psutil
from scipy import stats

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import env_processes
from impala_tf.envs import factory
from impala_tf.envs import multi_level
from impala_tf.runs import gin_config
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib
from lab.bench import quiet
from lab.bench import random_actions
from lab.bench import report

_DEFAULT_CONFIG = 'configs/dmlab30/multitask_shallow.gin'
COLUMNS = ('level', 'steps_per_sec', 'steps_per_sec_with_resets',
           'reset_secs_median', 'reset_secs_worst', 'resets',
           'step_cpu_ms', 'reset_cpu_secs_median', 'mib', 'episode_steps',
           'episode_return', 'return_standard_error', 'error')

Row = dict[str, Any]


class Step(NamedTuple):
  """A step of a single environment."""
  secs: float  # With the reset if it ended an episode.
  # Of the environment's process and of its ended children, such as compilers of
  # maps, in ticks of 10 ms.
  cpu_secs: float
  has_reset: bool  # Whether it ended an episode, or is the first reset.
  reward: float


def play(level: str, config: config_lib.Config, num_steps: int,
         num_episodes: int, training: bool = True) -> Row:
  """Plays a level at random for at least `num_steps` and `num_episodes`.

  Returns the numbers of `summarise`; 'mib' is the memory of the environment's
  process. Raises UserError if the level cannot be made, WorkerError if it
  fails.
  """
  others = psutil.Process().children()
  workers = multi_level.make_workers(
      level, config.experiment.seed, 0,
      multi_level.make_level(config, training),
      dataclasses.replace(config.actor, num_envs=1, env_processes=1))
  try:
    process, = [child for child in psutil.Process().children()
                if child not in others
                and 'spawn_main' in ' '.join(child.cmdline())]
    steps = _play(workers, process, num_steps, num_episodes)
    mib = process.memory_full_info().pss / 2**20
  finally:
    workers.close()
  return {'level': level, **summarise(steps), 'mib': mib}


def _play(workers: env_processes.Workers, process: psutil.Process,
          num_steps: int, num_episodes: int) -> list[Step]:
  rng = np.random.default_rng(0)
  steps: list[Step] = []
  start, cpu_secs = time.perf_counter(), sum(process.cpu_times()[:4])
  while len(steps) <= num_steps or (
      sum(step.has_reset for step in steps) <= num_episodes):
    numbers, timestep = workers.recv()
    end, before = time.perf_counter(), cpu_secs
    cpu_secs = sum(process.cpu_times()[:4])
    steps.append(Step(end - start, cpu_secs - before,
                      timestep.step_type[0] == 0, float(timestep.reward[0])))
    action = random_actions.draw(rng, workers.action_spec(), 1,
                                 workers.side_channels.action_mask)
    start = time.perf_counter()
    workers.send(numbers, action)
  return steps


def summarise(steps: Sequence[Step]) -> Row:
  """Computes speeds, times of resets, and mean length and return of episodes.

  `steps` begin with the reset before the first episode; one episode or more has
  ended. Returns numbers by the names in `COLUMNS`.
  """
  resets = [step for step in steps if step.has_reset]
  others = [step for step in steps if not step.has_reset]
  ends = [i for i, step in enumerate(steps) if step.has_reset]
  ended = steps[1:ends[-1] + 1]  # What follows is of an episode that goes on.
  returns = [sum(s.reward for s in steps[begin + 1:end + 1])
             for begin, end in zip(ends, ends[1:])]
  return {
      'steps_per_sec': len(others) / sum(s.secs for s in others),
      # Steps of whole episodes, with the reset of each.
      'steps_per_sec_with_resets': len(ended) / sum(s.secs for s in ended),
      'reset_secs_median': statistics.median(s.secs for s in resets),
      'reset_secs_worst': max(s.secs for s in resets),
      'resets': len(resets),
      'step_cpu_ms': 1e3 * sum(s.cpu_secs for s in others) / len(others),
      'reset_cpu_secs_median': statistics.median(s.cpu_secs for s in resets),
      'episode_steps': len(ended) / (len(ends) - 1),
      'episode_return': statistics.fmean(returns),
      'return_standard_error': (
          stats.sem(returns) if len(returns) > 1 else float('nan'))}


def write_csv(path: str, rows: Sequence[Row]) -> None:
  """Writes rows with the columns of `COLUMNS`, numbers with 4 digits."""
  with open(path, 'w', encoding='utf-8', newline='') as file:
    writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
    writer.writeheader()
    for row in rows:
      writer.writerow({name: f'{value:.4g}' if isinstance(value, float)
                       else value for name, value in row.items()})


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  command_line.add_config(parser, 'whose levels to play', _DEFAULT_CONFIG)
  command_line.add_gin_binding(parser, example='DmlabConfig.width = 64')
  parser.add_argument('--steps', type=int, default=1000,
                      help='least number of steps of each level (default: '
                      '%(default)s)')
  parser.add_argument('--episodes', type=int, default=2,
                      help='least number of episodes of each level that end '
                      '(default: %(default)s)')
  parser.add_argument('--evaluation', action='store_true',
                      help='play what evaluation plays, not what training does')
  parser.add_argument('--csv', metavar='FILE',
                      help='also write the numbers there')
  return parser.parse_args()


def _run() -> int:
  args = _parse_args()
  for flag in ('steps', 'episodes'):
    config_lib.check_range(f'--{flag}', getattr(args, flag), at_least=1)
  if args.csv:
    files.check_writable(args.csv, '--csv')
  config = gin_config.load(args.config, args.gin_binding)
  levels = levels_lib.expand(config.environment.level)
  factory.check_levels(config)
  quiet.warn()
  rows = []
  for level in levels:
    try:
      rows.append(play(level, config, args.steps, args.episodes,
                       not args.evaluation))
    except (config_lib.UserError, env_processes.WorkerError) as error:
      rows.append({'level': level, 'error': str(error)})
    report.show_levels(rows[-1:])
    if args.csv:
      write_csv(args.csv, rows)
  if len(rows) > 1:
    report.show_levels(rows)
  return int(any('error' in row for row in rows))


if __name__ == '__main__':
  sys.exit(program.run(_run))
