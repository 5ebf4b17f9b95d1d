"""Markdown tables of runs."""

from typing import Sequence

from impala_tf.plots import populations as populations_lib
from impala_tf.plots import runs as runs_lib
from impala_tf.plots import suite_tables
from impala_tf.runs import metrics
from impala_tf.suites import levels as levels_lib

# Espeholt et al. 2018, table 1, with the shallow network and batches of 32:
# CPU cores, GPUs, thousand frames/s on seekavoid_arena_01 and, if measured, on
# rooms_keys_doors_puzzle.
_PAPER_TABLE_1 = (
    ('A3C, 32 workers', '64', '0', '6.5, 9'),
    ('Batched A2C (sync step)', '48', '0', '9, 5'),
    ('Batched A2C (sync step)', '48', '1', '13, 5.5'),
    ('Batched A2C (sync traj.)', '48', '0', '16, 17.5'),
    ('Batched A2C (dyn. batch)', '48', '1', '16, 13'),
    ('IMPALA, 48 actors', '48', '0', '17, 20.5'),
    ('IMPALA (dyn. batch), 48 actors', '48', '1', '21, 24'),
    ('A3C, distributed', '200', '0', '46, 50'),
    ('IMPALA, distributed', '150', '1', '80'),
    ('IMPALA (optimised), distributed', '375', '1', '200'),
    ('IMPALA (optimised), batch 128, distributed', '500', '1', '250'))


def training(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table of each run's length and mean speed of training."""
  return suite_tables.table(
      ['run', 'trained on', 'frames', 'updates', 'hours', 'frames/s',
       'capped mean human-normalised'],
      [(run.label, _what(run.levels), last['frames'], last['updates'],
        last['secs'] / 3600, last['frames'] / last['secs'],
        last.get(metrics.HEADLINE)) for run in runs for last in run.rows[-1:]],
      num_names=2, forms=['', '', ',', ',', '.2f', ',.0f', '.1%'])


def returns(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table of the last return on each level of each run."""
  rows = []
  for run in runs:
    for level in run.levels:
      points = run.curve(level)
      frames, value = points[-1] if points else (None, None)
      suite = levels_lib.suite_of(level)
      normalised = (suite.human_normalised_score(level, value)
                    if suite and value is not None else None)
      rows.append((run.label, level, frames, value, normalised))
  return suite_tables.table(
      ['run', 'level', 'frames of it', 'return', 'human-normalised'], rows,
      num_names=2, forms=['', '', ',', ',.2f', '.1%'])


def _what(levels: Sequence[str]) -> str:
  if len(levels) == 1:
    return levels[0]
  for suite in levels_lib.SUITES.values():
    if tuple(levels) == suite.train_levels:
      return f'{suite.title} ({len(levels)} levels)'
  return f'{len(levels)} levels'


def evaluations(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table with a line for each evaluated level of each run."""
  columns = {'trained_frames': ',', 'episodes': ',', 'mean': ',.2f',
             'standard_error': ',.2f', 'human_normalised_score': '.1%'}
  return suite_tables.table(
      ['run', 'level', 'frames', 'episodes', 'mean return', 'standard error',
       'human-normalised'],
      [(run.label, level + runs_lib.deviation(result),
        *map(result.get, columns))
       for run in runs for level, result in run.results.items()],
      num_names=2, forms=['', '', *columns.values()])


def throughput(runs: Sequence[runs_lib.Run]) -> str:
  """Returns the paper's table 1 with our runs above it."""
  ours = [(f'**{run.label}** on {_what(run.levels)}', None, None,
           last['frames'] / last['secs'] / 1000)
          for run in runs for last in run.rows[-1:]]
  return suite_tables.table(['agent', 'CPU cores', 'GPUs', 'thousand frames/s'],
                            [*ours, *_PAPER_TABLE_1], forms=['', '', '', '.1f'])


def population(members: populations_lib.Population) -> str:
  """Returns a table with a line for each member of a population."""
  rows = []
  for name in members.members:
    events = members.events[name]
    mark = '**' if name == members.best else ''
    values = events[-1].after if events else {}
    rows.append([
        f'{mark}{name}{mark}',
        events[-1].fitness if events else None, members.returns[name],
        len(events), sum(event.is_copy for event in events),
        ' → '.join(stretch.member for stretch in populations_lib.ancestry(
            members.events, name)),
        *map(values.get, members.adapted)])
  return suite_tables.table(
      ['member', 'fitness', 'return', 'decisions', 'copies', 'ancestry',
       *(name.replace('_', ' ') for name in members.adapted)], rows,
      forms=['', '.3f', ',.2f', '', '', '', *['.3g'] * len(members.adapted)])
