"""Draws a figure of the paper's analysis from a sweep, and prints its table.

Writes OUTPUT.png and OUTPUT.md, or the picture alone if OUTPUT has an ending.
Unfinished runs are left out; failed ones are named below the table.
"""

import argparse
import math
import pathlib
import sys
from typing import Any, Callable, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import pictures
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.storage import files
from impala_tf.sweeps import results as results_lib
from lab.figures import baselines
from lab.figures import differences
from lab.figures import figures
from lab.figures import tables


def _of_results(*parts: Callable[[tables.Results], str]
                ) -> Callable[[str, tables.Results], str]:
  """Returns a function of sweep_dir and results that joins texts of `parts`.

  Empty ones, such as differences of a single variant, are left out.
  """
  return lambda sweep_dir, results: '\n\n'.join(
      text for part in parts if (text := part(results)))


def _of_finals(draw: Callable[[tables.Results], Any]
               ) -> Callable[[str, tables.Results], Any]:
  """Returns `draw` as a function of sweep_dir, which is unused, and results."""
  return lambda sweep_dir, results: draw(results)


_DISPLAYS = {
    'table_2': (_of_results(tables.table_2, differences.of_corrections),
                _of_finals(figures.table_2)),
    'figure_e1': (_of_results(tables.figure_e1, differences.of_lags),
                  figures.figure_e1),
    'lags': (_of_results(tables.figure_e1, differences.of_lags),
             _of_finals(figures.lags)),
    'figure_e2': (_of_results(tables.figure_e2), _of_finals(figures.figure_e2)),
    'figure_e3': (_of_results(tables.figure_e3), figures.figure_e3),
    'curves': (_of_results(tables.variants, differences.of_variants),
               figures.curves_of_variants),
    'variants': (_of_results(tables.variants, differences.of_variants),
                 _of_finals(figures.variants)),
    'best_agents': (_of_results(tables.best_agents, differences.of_agents),
                    figures.best_agents),
    'ranks': (_of_results(baselines.ranks_table), _of_finals(baselines.ranks)),
    'rates': (_of_results(baselines.ranks_table), _of_finals(baselines.rates)),
    'figure_4': (baselines.figure_4_table, baselines.figure_4),
    'speedup': (baselines.speedup_table, baselines.speedup)}
# Displays whose pictures need learning curves; their tables need results alone.
_PICTURES_OF_CURVES = ('figure_e1', 'figure_e3', 'curves', 'best_agents')
# Displays whose tables need learning curves, too.
_OF_CURVES = ('figure_4', 'speedup')
_OF_RESULTS = [display for display in _DISPLAYS if display not in _OF_CURVES]


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='lab.figures', description=__doc__)
  parser.add_argument('display', choices=_DISPLAYS)
  parser.add_argument('sweep_dir', metavar='SWEEP_DIR',
                      help=f'of a sweep; for {", ".join(_OF_RESULTS)} its '
                      'results.csv is enough, though without learning '
                      f'curves {", ".join(_PICTURES_OF_CURVES)} have no '
                      'picture')
  parser.add_argument('--output', help='of picture and table without ending '
                      '(default: DISPLAY beside results.csv), or a picture '
                      'alone, with its ending')
  parser.add_argument('--goals', type=_numbers, default=[], metavar='RETURNS',
                      help='also list after how many frames each run first '
                      'reached these mean returns, as in --goals=-20,-18; '
                      'needs learning curves')
  return parser.parse_args()


def _numbers(text: str) -> list[float]:
  """Parses comma-separated numbers."""
  try:
    return [float(number) for number in text.split(',')]
  except ValueError as error:
    raise argparse.ArgumentTypeError(
        f'{text!r} is no list of numbers; write them as in -20,-18') from error


def goals_table(sweep_dir: str, results: tables.Results,
                goals: Sequence[float]) -> str:
  """Returns a table of the frames at which each run first reached goals.

  Goals are mean returns of the last 100 episodes; means of fewer, as a run
  begins, do not count.
  """
  rows = []
  for task, variant in dict.fromkeys(
      (r.run.task, r.run.variant) for r in results):
    curves = [metrics.points([
        row for row in figures.rows_of(sweep_dir, result)
        if row.get('episodes', math.inf) >= metrics.EPISODE_WINDOW],
                             'episode_return')
              for result in results_lib.select(results, task, variant)]
    rows.append([task, variant, *(
        ', '.join(next((f'{x / 1e6:.2f}' for x, y in points if y >= goal),
                       'never') for points in curves) for goal in goals)])
  return ('Million frames to a mean return of the last 100 episodes, run by '
          'run:\n\n' + tables.markdown(
              ['task', 'variant', *(f'{goal:g}' for goal in goals)], rows))


def main() -> None:
  args = _parse_args()
  path = pathlib.Path(args.sweep_dir)
  has_curves = path.suffix != '.csv'
  if has_curves:
    path /= sweep_directory.RESULTS
  output = args.output or str(path.parent / args.display)
  picture = pictures.output_path(output)
  draws = has_curves or args.display not in _PICTURES_OF_CURVES
  if not has_curves and (args.goals or args.display in _OF_CURVES
                         or not draws and picture == output):
    raise config_lib.UserError(
        f"{'--goals' if args.goals else args.display} needs learning curves, "
        f'which {path} does not have; name the directory of the sweep')
  table, draw = _DISPLAYS[args.display]
  results, failed = figures.read(path)
  text = table(args.sweep_dir, results)
  if failed:
    text += ('\n\nLeft out, since they have failed, so that the others of '
             'their variants look better than all would: '
             + ', '.join(r.run.name for r in failed))
  if args.goals:
    text += f'\n\n{goals_table(args.sweep_dir, results, args.goals)}'
  # Drawn before anything is written, since it may fail.
  figure = draw(args.sweep_dir, results) if draws else None
  print(text)
  written = []
  if figure is not None:
    pictures.save(figure, picture)
    written.append(picture)
  if picture != output:
    files.write(f'{output}.md', f'{text}\n'.encode())
    written.append(f'{output}.md')
  print(f"\nwrote {' and '.join(written)}")


if __name__ == '__main__':
  sys.exit(program.run(main))
