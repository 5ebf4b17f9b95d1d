"""Draws a figure of the paper's analysis from a sweep, and prints its table.

Writes OUTPUT.png and OUTPUT.md. Runs that have not finished are left out.
"""

import argparse
import pathlib
import sys

from impala_tf import config as config_lib
from impala_tf.sweeps import results as results_lib
from launch.analysis import figures
from launch.analysis import tables
from launch.run import command_line
from launch.run import program
from launch.run import sweep_directory

_DISPLAYS = {
    name: (getattr(tables, name), getattr(figures, name))
    for name in ('table_2', 'figure_e1', 'figure_e2', 'figure_e3', 'replay')}


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='launch.analysis', description=__doc__)
  parser.add_argument('display', choices=_DISPLAYS)
  parser.add_argument('sweep_dir', metavar='SWEEP_DIR')
  parser.add_argument('--output', help='without ending (default: DISPLAY in '
                      'the sweep\'s directory)')
  return parser.parse_args()


def _show(args: argparse.Namespace) -> None:
  path = pathlib.Path(args.sweep_dir, sweep_directory.RESULTS)
  try:
    text = path.read_text(encoding='utf-8')
  except OSError as error:
    raise config_lib.UserError(
        f'{path} cannot be read ({error.strerror}); is {args.sweep_dir} the '
        'directory of a sweep?') from error
  results = [r for r in results_lib.from_csv(text)
             if r.status == results_lib.FINISHED]
  if not results:
    raise config_lib.UserError(f'{path} has no finished run yet')
  table, draw = _DISPLAYS[args.display]
  output = args.output or str(pathlib.Path(args.sweep_dir, args.display))
  print(table(results))
  try:
    pathlib.Path(f'{output}.md').write_text(table(results) + '\n',
                                            encoding='utf-8')
    draw(args.sweep_dir, results).savefig(f'{output}.png', dpi=120)
  except OSError as error:
    raise config_lib.UserError(f'cannot write {output}: {error}; choose '
                               'another --output') from error
  print(f'\nwrote {output}.png and {output}.md')


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _show(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
