"""Draws learning curves of runs, or of groups of runs.

The verb `report` draws everything that is known of runs, level by level.
"""

import argparse
import difflib
import itertools
from typing import NamedTuple, Sequence

import numpy as np

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import groups as groups_lib
from impala_tf.plots import intervals
from impala_tf.plots import runs as runs_lib
from impala_tf.runs import metrics
from impala_tf.storage import files
from impala_tf.sweeps import results as results_lib

_POINTS = 200  # Points of a curve that is made of several.
_X = ('frames', 'secs', 'updates')
_RETURN = 'episode_return'
_STATISTICS = {'mean': 'mean', 'iqm': 'interquartile mean'}


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('run_dirs', nargs='+', metavar='RUN_DIR',
                      help="of runs, or a pattern such as 'runs/seed_*'; or "
                      'files like metrics.jsonl')
  parser.add_argument('--output', default='learning_curve.png',
                      help='file to write (default: %(default)s)')
  parser.add_argument('--metric', default=_RETURN,
                      help='a field of metrics.jsonl (default: %(default)s)')
  parser.add_argument('--x', default='frames', choices=_X,
                      help='horizontal axis; secs is wall time (default: '
                      '%(default)s)')
  parser.add_argument('--group_by', metavar='WAY',
                      help='one curve for each group of runs: seed (configs '
                      'that differ in the seed only), directory (that runs '
                      'lie in), all, or an option such as '
                      'ImpalaConfig.entropy_cost (default: a curve a run)')
  parser.add_argument('--statistic', default='mean', choices=_STATISTICS,
                      help='of a group: mean, or iqm, the interquartile mean '
                      '(default: %(default)s)')
  parser.add_argument('--confidence', type=float, default=0.95,
                      help='level of the bootstrap interval; 0 for none '
                      '(default: %(default)s)')
  parser.add_argument('--smooth', type=int, default=1, metavar='ROWS',
                      help='draw running means of so many rows of each run '
                      '(default: %(default)s, as they are)')
  parser.add_argument('--csv', metavar='OUT.csv',
                      help='also write what was drawn')
  return parser.parse_args()


class _Curve(NamedTuple):
  label: str  # In the legend.
  num_runs: int  # Behind it.
  x: np.ndarray  # Float [P].
  band: intervals.Band  # Statistic of the runs and its interval.


@program.returning_exit_code
def main() -> None:
  """Draws the learning curves to a picture, and writes --csv if given."""
  args = _parse_args()
  if args.group_by:
    groups_lib.check_way(args.group_by)
  config_lib.check_range('--confidence', args.confidence, at_least=0, below=1)
  config_lib.check_range('--smooth', args.smooth, at_least=1)
  if args.csv:
    files.check_writable(args.csv, '--csv')
  from impala_tf.plots import pictures  # Imports Matplotlib: half a second.
  output = pictures.output_path(args.output)
  run_dirs = runs_lib.find(args.run_dirs)
  points = {run_dir: _points(run_dir, args) for run_dir in run_dirs}
  drawn = [_curve(label, members, points, args) for label, members in
           groups_lib.make(run_dirs, args.group_by).items()]
  if args.csv:
    files.write(args.csv, _to_csv(drawn).encode())
  _draw(drawn, args, output)
  print(f'wrote {output}' + (f' and {args.csv}' if args.csv else ''))


def _points(run_dir: str, args: argparse.Namespace) -> list:
  rows = metrics.read_rows(run_dir)
  points = metrics.points(rows, args.metric, args.x)
  if not points:
    known = sorted({name for row in rows for name in row})
    near = difflib.get_close_matches(args.metric, known, n=1, cutoff=0.5)
    hint = f'did you mean {near[0]}? ' if near else ''
    raise config_lib.UserError(
        f'{run_dir}: no row of {metrics.FILE_NAME} has {args.metric} and '
        f'{args.x}; {hint}it has {", ".join(known) or "nothing"}')
  return points


def _curve(label: str, run_dirs: Sequence[str], points: dict[str, list],
           args: argparse.Namespace) -> _Curve:
  lines = []
  for run_dir in run_dirs:
    x, y = np.array(points[run_dir], np.float64).T
    lines.append(list(zip(x, intervals.smoothed(y, args.smooth))))
  if len(lines) == 1:  # The run's own points.
    x, y = np.array(lines[0]).T
    return _Curve(label, 1, x, intervals.Band(y, None, None))
  x, values = intervals.on_common_axis(lines, _POINTS)
  if not x.size:
    raise config_lib.UserError(
        f'{label}: its runs have no {args.x} in common; leave out the '
        'shortest, or --group_by')
  levels = [groups_lib.values_of(run_dir).get(groups_lib.LEVEL, '')
            for run_dir in run_dirs]
  return _Curve(label, len(lines), x, intervals.band(
      values, levels, intervals.STATISTICS[args.statistic],
      args.confidence or None))


def _to_csv(drawn: Sequence[_Curve]) -> str:
  nothing = itertools.repeat(None)
  return results_lib.as_csv([
      ('label', 'runs', 'x', 'y', 'low', 'high'),
      *((curve.label, curve.num_runs, *point) for curve in drawn
        for point in zip(curve.x, curve.band.centre, *(
            nothing if limit is None else limit
            for limit in (curve.band.low, curve.band.high))))])


def _draw(drawn: Sequence[_Curve], args: argparse.Namespace, output: str
          ) -> None:
  from impala_tf.plots import pictures
  figure, ((axes,),) = pictures.grid(1, 1, pictures.PAGE_WIDTH, height=3.4)
  for curve in drawn:
    note = f' ({curve.num_runs} runs)' if curve.num_runs > 1 else ''
    pictures.draw_band(axes, curve.x, curve.band, label=curve.label + note)
  pictures.label_x(axes, args.x)
  title = ('mean return of games' if args.metric == _RETURN else
           args.metric.replace('_', ' '))
  if any(curve.num_runs > 1 for curve in drawn):
    title += f'\n{_STATISTICS[args.statistic]} of runs'
    if any(curve.band.low is not None for curve in drawn):
      title += f', {100 * args.confidence:g}% bootstrap interval'
  axes.set_ylabel(title)
  pictures.share_legend(figure)
  pictures.save(figure, output)
