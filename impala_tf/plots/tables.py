"""Markdown tables of runs."""

from typing import Sequence

from impala_tf.pbt import lineage
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
_cell = suite_tables.cell


def training(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table of each run's length and mean speed of training."""
  rows = [['run', 'trained on', 'frames', 'updates', 'hours', 'frames/s',
           'capped mean human-normalised']]
  for run in runs:
    last = run.rows[-1]
    rows.append([
        run.label, _what(run.levels), f'{last["frames"]:,}',
        f'{last["updates"]:,}', f'{last["secs"] / 3600:.2f}',
        f'{last["frames"] / last["secs"]:,.0f}',
        _cell(last.get(metrics.HEADLINE), '.1%')])
  return suite_tables.table(rows, num_names=2)


def returns(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table of the last return on each level of each run."""
  rows = [['run', 'level', 'frames of it', 'return', 'human-normalised']]
  for run in runs:
    for level in run.levels:
      points = run.curve(level)
      frames, value = points[-1] if points else (None, None)
      suite = levels_lib.suite_of(level)
      normalised = None
      if value is not None and suite:
        normalised = suite.human_normalised_score(level, value)
      rows.append([run.label, level, _cell(frames, ','), _cell(value),
                   _cell(normalised, '.1%')])
  return suite_tables.table(rows, num_names=2)


def _what(levels: Sequence[str]) -> str:
  if len(levels) == 1:
    return levels[0]
  for suite in levels_lib.SUITES.values():
    if tuple(levels) == suite.train_levels:
      return f'{suite.title} ({len(levels)} levels)'
  return f'{len(levels)} levels'


def evaluations(runs: Sequence[runs_lib.Run]) -> str:
  """Returns a table with a line for each evaluated level of each run."""
  rows = [['run', 'level', 'frames', 'episodes', 'mean return',
           'standard error', 'human-normalised']]
  for run in runs:
    for level, result in run.results.items():
      rows.append([
          run.label, level, f'{result["trained_frames"]:,}',
          f'{result["episodes"]:,}', _cell(result['mean']),
          _cell(result.get('standard_error')),
          _cell(result.get('human_normalised_score'), '.1%')])
  return suite_tables.table(rows, num_names=2)


def throughput(runs: Sequence[runs_lib.Run]) -> str:
  """Returns the paper's table 1 with our runs above it."""
  ours = [(f'**{run.label}** on {_what(run.levels)}', _cell(None), _cell(None),
           f'{last["frames"] / last["secs"] / 1000:.1f}')
          for run in runs for last in run.rows[-1:]]
  return suite_tables.table([
      ('agent', 'CPU cores', 'GPUs', 'thousand frames/s'), *ours,
      *_PAPER_TABLE_1])


def population(members: populations_lib.Population) -> str:
  """Returns a table with a line for each member of a population."""
  rows = [['member', 'fitness', 'return', 'decisions', 'copies', 'ancestry',
           *(name.replace('_', ' ') for name in members.adapted)]]
  for name in members.members:
    events = members.events[name]
    mark = '**' if name == members.best else ''
    values = events[-1].after if events else {}
    rows.append([
        f'{mark}{name}{mark}',
        _cell(events[-1].fitness if events else None, '.3f'),
        _cell(members.returns[name]),
        str(len(events)), str(sum(event.is_copy for event in events)),
        ' → '.join(stretch.member for stretch in lineage.ancestry(
            members.events, name)),
        *(_cell(values.get(name), '.3g') for name in members.adapted)])
  return suite_tables.table(rows)
