"""Keeps what displays need of a run or a sweep, small enough for a repository.

    python -m lab.figures.keep SOURCE DIR [--rows=100]

SOURCE is the directory of a run or of a sweep. DIR gets its config or its
results, evaluations, and the learning curves. Of each `metrics.jsonl` these are
some rows, the first and the last among them, with a few columns and five
digits. `launch/plot.sh`, `launch/report.sh` and `lab.figures` read it as
SOURCE. A goal that was reached in a row that was left out is reached later.
"""

import json
import pathlib
import re
import sys
from typing import Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import results as results_lib

# Progress, returns, and their causes.
_COLUMNS = re.compile(
    'frames|updates|secs|episodes|episode_return|entropy|explained_variance'
    '|gradient_norm|(replayed/)?policy_lag|capped_mean_human_normalised_score'
    '|popart/.*|level/.*/(frames|episode_return)')
_DIGITS = 5


def thinned(rows: Sequence[metrics.Row], number: int) -> list[metrics.Row]:
  """Chooses evenly spaced rows, and of each the columns of `_COLUMNS`.

  `number`, at least 2, is the most that are kept, the first and the last among
  them.
  """
  last = len(rows) - 1
  chosen = range(len(rows)) if last < number else [
      round(i * last / (number - 1)) for i in range(number)]
  return [{name: float(f'{value:.{_DIGITS}g}') if isinstance(value, float)
           else value for name, value in rows[i].items()
           if _COLUMNS.fullmatch(name)} for i in chosen]


def _rows_of(source: pathlib.Path, name: pathlib.PurePath,
             number: int) -> dict[pathlib.PurePath, str]:
  """Returns a run's thinned rows as text, by path in DIR; {} without rows."""
  rows = thinned(metrics.read_rows(str(source / name)), number)
  text = ''.join(f'{json.dumps(row)}\n' for row in rows)
  return {name / metrics.FILE_NAME: text} if rows else {}


def _kept(source: pathlib.Path, number: int) -> dict[pathlib.PurePath, str]:
  """Returns the texts of all files to write, by their paths in DIR."""
  results_path = source / sweep_directory.RESULTS
  config_path = pathlib.Path(gin_config.config_path(str(source)))
  if results_path.is_file():
    whole, names = [results_path], [
        pathlib.PurePath('runs', result.run.name)
        for result in results_lib.from_csv(
            results_path.read_text(encoding='utf-8-sig'))
        if result.status == results_lib.FINISHED]
  elif config_path.is_file():
    whole = [config_path, *source.glob('evaluation*.json')]
    names = [pathlib.PurePath()]
  else:
    raise config_lib.UserError(
        f'{source} has neither {sweep_directory.RESULTS} nor '
        f'{config_path.name}; name a directory of a run or of a sweep on this '
        'machine')
  found = {pathlib.PurePath(path.name): path.read_text(encoding='utf-8')
           for path in whole}
  for name in names:
    found.update(_rows_of(source, name, number))
  return found


def main() -> None:
  parser = command_line.Parser(prog='lab.figures.keep', description=__doc__)
  parser.add_argument('source', metavar='SOURCE')
  parser.add_argument('output', metavar='DIR', help='a new directory')
  parser.add_argument('--rows', type=int, default=100,
                      help='of each run, at the most (default: %(default)s)')
  args = parser.parse_args()
  config_lib.check_range('--rows', args.rows, at_least=2)
  output = pathlib.Path(args.output)
  if output.exists() or '://' in args.output:
    raise config_lib.UserError(
        f'{args.output} is there already, or a URL; choose a new directory')
  kept = _kept(pathlib.Path(args.source), args.rows)  # Before one is written.
  try:
    for name, text in kept.items():
      (output / name).parent.mkdir(parents=True, exist_ok=True)
      (output / name).write_text(text, encoding='utf-8')
  except OSError as error:
    raise config_lib.UserError(
        f'{output} cannot be written ({error.strerror}); choose another DIR'
    ) from error


if __name__ == '__main__':
  sys.exit(program.run(main))
