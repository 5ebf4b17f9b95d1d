"""Fills the tables of scores in Markdown pages from results/results.csv.

    python -m lab.figures.score_tables README.md docs/results.md

A page says between two comments which configs a table is of; the lines between
them are replaced. With `longest` it has their longest evaluated runs alone, and
with `aggregates` it is of all evaluated Atari games:

    <!-- scores: configs/catch.gin configs/atari/pong.gin -->
    <!-- end of scores -->
"""

import collections
import itertools
import math
import pathlib
import re
import shlex
import sys
from typing import Callable, Sequence

import numpy as np

from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import intervals
from impala_tf.runs import recorded_results
from impala_tf.suites import levels as levels_lib
from lab.figures import tables

Results = Sequence[recorded_results.Result]

PATH = pathlib.Path(__file__).parents[2] / recorded_results.DEFAULT_PATH
PAPERS = 'IMPALA (shallow)'  # Its experts, after 200 million frames.
_TABLE = re.compile(r'(<!-- scores: (.*?) -->\n).*?(<!-- end of scores -->)',
                    re.DOTALL)
_UNSAID = re.compile(  # The same task in another run.
    r'(ExperimentConfig\.(seed|total_frames|in_process)|'
    r'EnvironmentConfig\.level) = ')
# Aggregates of human-normalised scores, float [N, P] to [P]: Agarwal et al.
# 2021, section 4.3. The optimality gap is what is missing to the human's score.
_AGGREGATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    'median': lambda values: np.median(values, axis=-2),
    'mean': intervals.mean, 'interquartile mean': intervals.interquartile_mean,
    'optimality gap': lambda values: np.maximum(1 - values, 0).mean(axis=-2)}


def filled(page: str, results: Results) -> str:
  """Returns a Markdown page with its tables of scores replaced."""
  def table(match):
    wanted = match[2].split()
    found = [r for config in wanted for r in results if r.config == config]
    text = (aggregates(results) if wanted == ['aggregates'] else
            scores(_longest(found) if 'longest' in wanted else found))
    return f'{match[1]}{text}\n{match[3]}'
  return _TABLE.sub(table, page)


def _longest(results: Results) -> Results:
  evaluated = [r for r in results if r.protocol == recorded_results.SAMPLED]
  most = {r.config: r.frames for r in sorted(evaluated, key=lambda r: r.frames)}
  return [r for r in evaluated if r.frames == most[r.config]]


def scores(results: Results) -> str:
  """Returns a table with a row for each config, length and protocol."""
  rows = []
  for (config, changes, protocol, millions, task), group in _grouped(results):
    suite = levels_lib.suite_of(task)
    paper = suite.paper[PAPERS].get(task) if suite else None
    rows.append([
        f'{task}, {changes}' if changes else task, f'`{config}`', millions,
        str(len(group)), _span([r.minutes for r in group], 1),
        '; '.join(map(_score, group)) + protocol,
        _number(suite.random[task]) if suite else '',
        '' if paper is None else _number(paper)])
  return tables.markdown(
      ['task', 'config', 'million frames', 'runs', 'minutes', 'score',
       'random', "paper's"], rows)


def _grouped(results: Results) -> list:
  """Groups results by config, changed options, protocol, length and task."""
  def key(r):
    words = shlex.split(r.command.replace('--gin_binding ', '--gin_binding='))
    changes = [binding for word in words
               if (binding := word.partition('--gin_binding=')[2])
               and not _UNSAID.match(binding)]
    protocol = '' if r.protocol == recorded_results.SAMPLED else (
        f' ({r.protocol})')
    return (r.config, ', '.join(f'`{change}`' for change in changes),
            protocol,
            '' if 'first' in protocol else f'{r.frames / 1e6:.3g}', r.task)

  groups: dict[tuple, list[recorded_results.Result]] = {}
  for r in results:
    groups.setdefault(key(r), []).append(r)
  # Runs that stopped at a return differ in length.
  return [((*of[:3], of[3] or _span([r.frames / 1e6 for r in group], 1), of[4]),
           group) for of, group in groups.items()]


def _score(r: recorded_results.Result) -> str:
  if r.standard_error is None:
    return _number(r.score)
  digits = _digits(r.standard_error, 2)
  return (f'{r.score:,.{digits}f} ± {r.standard_error:,.{digits}f}'
          .replace('-', '−'))


def _number(value: float) -> str:
  return f'{value:,.{_digits(value, 3)}f}'.replace('-', '−')


def _digits(value: float, significant: int) -> int:
  whole = math.floor(math.log10(abs(value))) + 1 if value else 1
  return max(0, significant - whole)


def _span(values: Sequence[float], digits: int) -> str:
  """Returns 'lowest to highest' of the known numbers; '' if none is known."""
  known = [f'{value:.{digits}f}' for value in sorted(
      value for value in values if value is not None)]
  return ' to '.join(dict.fromkeys([known[0], known[-1]])) if known else ''


def aggregates(results: Results) -> str:
  """Returns a table of human-normalised scores over games, by length.

  Its intervals are over seeds; if a game has one seed there are none.
  """
  atari = [r for r in results if r.task.startswith('atari/')
           and r.protocol == recorded_results.SAMPLED
           and r.config.startswith(('configs/atari/', 'configs/atari.gin'))]
  rows = []
  for millions, group in itertools.groupby(
      sorted(atari, key=lambda r: r.frames), lambda r: round(r.frames / 1e6)):
    runs = sorted(group, key=lambda r: r.task)
    suite = levels_lib.SUITES['atari57']
    runs_of = collections.Counter(r.task for r in runs)
    games = list(runs_of)
    if len(games) < 2:  # Nothing to aggregate.
      continue
    ours = [suite.human_normalised_score(r.task, r.score) for r in runs]
    papers = [suite.human_normalised_score(game, suite.paper[PAPERS][game])
              for game in games]
    for who, values, strata in (
        (f'after {millions} million frames', ours, [r.task for r in runs]),
        ("the paper's, the same games", papers, games)):
      rows.append([who, str(len(games))] + [
          tables.cell(tables.band_of_groups(
              np.array(values)[:, np.newaxis], strata, aggregate,
              tables.CONFIDENCE if min(runs_of.values()) > 1 else None))
          for aggregate in _AGGREGATES.values()])
  return tables.markdown(['human-normalised', 'games', *_AGGREGATES], rows)


def main() -> None:
  """Fills the tables of the pages named on the command line."""
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('pages', metavar='PAGE.md', nargs='+', type=pathlib.Path)
  results = recorded_results.read(str(PATH))
  for page in parser.parse_args().pages:
    page.write_text(filled(page.read_text(encoding='utf-8'), results),
                    encoding='utf-8')


if __name__ == '__main__':
  sys.exit(program.run(main))
