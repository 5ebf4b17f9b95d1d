"""Draws scores and learning curves of runs, level by level, and prints tables.

Writes report.md, curves.png and, if a level of a suite was evaluated,
scores_SUITE.png: human-normalised scores beside the paper's. Reads the files
that training and evaluation have written to the runs' directories. Of a
directory of populations it draws population.png: the best member's curve and
hyper-parameters along its ancestry, the family tree, and copies; and it writes
decisions.csv, a row for each decision of a member.
"""

import argparse
import pathlib
from typing import Any, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import exchange
from impala_tf.plots import populations
from impala_tf.plots import runs as runs_lib
from impala_tf.plots import suite_tables
from impala_tf.plots import tables
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runs import sweep_directory
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib
from impala_tf.sweeps import plan as plan_lib

Pictures = dict[str, Any]  # Matplotlib's figures by file name.

_RETURNS = (
    f'Returns are means of the last {metrics.EPISODE_WINDOW} episodes, of '
    f'{metrics.LEVEL_EPISODE_WINDOW} where a run has several levels. Grey '
    "lines are others' scores.")
_TABLE_1 = (
    'In bold: ours, over all of training. The others are table 1 of the paper, '
    'on seekavoid_arena_01 and rooms_keys_doors_puzzle of DeepMind Lab.')
_ANCESTRY = (
    'In bold: the member with the highest fitness of those that have not '
    'failed, as in best.json, whose ancestry is drawn; its curve is put '
    'together by backtracking through the checkpoints that were copied '
    '(appendix F).')
_COMPARISON = (
    'Final returns (means over the last tenth of the frames) of the best '
    'finished member and run, and means of all finished ones (their number). '
    'The best are so by these returns: runs of a sweep have no fitness. Lines '
    'are means over seeds, bands bootstrap intervals of 95 %; the range behind '
    'a mean difference is the 95 % t interval of the pairs of a seed.')


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('run_dirs', nargs='+', metavar='RUN_DIR',
                      help='of a run; or of populations, and of the sweep of '
                      'the same file to compare them with')
  parser.add_argument('--format', choices=exchange.FORMATS,
                      help='write scores.json alone, in the form of this '
                      'package; runs that differ in seed and level only are '
                      'of one algorithm')
  parser.add_argument('--output', default='report', metavar='DIRECTORY',
                      help='where to write (default: %(default)s)')
  return parser.parse_args()


def _add_comparison(population_dirs: Sequence[str], sweep_dirs: Sequence[str],
                    pictures: Pictures, sections: list[str]) -> None:
  from impala_tf.plots import comparison
  if len(population_dirs) != 1 or len(sweep_dirs) != 1:
    raise config_lib.UserError(
        f'{sweep_dirs[0]} is a sweep, which is compared with the populations '
        'of the same file; name one directory of each, or runs within it')
  dirs = population_dirs[0], sweep_dirs[0]
  pairs = comparison.pairs(*dirs)
  changed = [text for text in plan_lib.differences(*(
      gin_config.load_sweep(str(pathlib.Path(path, kind.config_name)))
      for path, kind in zip(dirs, (
          sweep_directory.POPULATION, sweep_directory.SWEEP))))
             if not text.startswith('SweepConfig.tasks')]  # They may move.
  pictures['comparison.png'] = comparison.draw(*dirs, pairs)
  sections += ['## Populations and the sweep',
               f'Differences of their files: {", ".join(changed) or "none"}.',
               '![Comparison](comparison.png)', comparison.table(pairs),
               _COMPARISON]


def _load_populations(paths: Sequence[str]) -> list[populations.Population]:
  """Reads populations; those of several directories are labelled by these."""
  names = runs_lib.labels(paths) if len(paths) > 1 else ['']
  loaded = [population._replace(label=f'{name} {population.label}'.strip())
            for name, path in zip(names, paths)
            for population in populations.load(path)]
  if paths and not loaded:
    raise config_lib.UserError(
        f'no member of {paths[0]} has begun yet; let it train')
  return loaded


@program.returning_exit_code
def main() -> None:
  """Writes the report, and prints its tables."""
  args = _parse_args()
  from impala_tf.plots import figures
  from impala_tf.plots import pictures as pictures_lib
  output = pathlib.Path(args.output)
  if output.suffix[1:] in (*pictures_lib.formats(), 'html', 'md'):
    raise config_lib.UserError(
        f'--output is a directory, which gets report.md and pictures as PNG, '
        f'but {output} looks like a file; leave out its ending')
  run_directory.check_writable(output, '--output')
  run_dirs = runs_lib.find(args.run_dirs)
  if args.format:
    contents = exchange.FORMATS[args.format](run_dirs)
    output.mkdir(parents=True, exist_ok=True)
    files.write_json(str(output / 'scores.json'), contents)
    return print(f'wrote scores.json to {output}')
  of_populations = [path for path in run_dirs
                    if sweep_directory.POPULATION.is_in(path)]
  of_sweeps = [path for path in run_dirs if sweep_directory.SWEEP.is_in(path)]
  runs = runs_lib.load([path for path in run_dirs
                        if path not in (*of_populations, *of_sweeps)])
  trained = [run for run in runs if run.rows]
  pictures: Pictures = {}
  sections: list[str] = []
  if of_sweeps:
    _add_comparison(of_populations, of_sweeps, pictures, sections)
  loaded = _load_populations(of_populations)
  for number, population in enumerate(loaded, start=1):
    name = f'population_{number}.png' if len(loaded) > 1 else 'population.png'
    pictures[name] = figures.population(population)
    sections += [f'## Population {population.label}', f'![Population]({name})',
                 tables.population(population), _ANCESTRY]
  if trained:
    sections += ['## Training', tables.training(trained),
                 tables.returns(trained), _RETURNS]
    figure = figures.learning_curves(trained)
    if figure:
      pictures['curves.png'] = figure
      sections += ['![Learning curves](curves.png)']
  if any(run.results for run in runs):
    sections += ['## Evaluation', tables.evaluations(runs)]
  for name, ours in runs_lib.scores_by_suite(runs).items():
    suite = levels_lib.SUITES[name]
    pictures[f'scores_{name}.png'] = figures.scores(suite, ours)
    sections += [f'## {suite.title}', f'![Scores](scores_{name}.png)',
                 suite_tables.markdown(suite, ours)]
  if trained:
    sections += ['## Throughput', tables.throughput(trained), _TABLE_1]

  output.mkdir(parents=True, exist_ok=True)
  texts = {'report.md': '\n\n'.join(sections) + '\n'}
  if loaded:
    texts['decisions.csv'] = populations.decisions(loaded)
  for name, text in texts.items():
    files.write(str(output / name), text.encode())
  for name, figure in pictures.items():
    pictures_lib.save(figure, str(output / name))
  print('\n\n'.join(s for s in sections if not s.startswith('![')))
  print(f'\nwrote {", ".join([*texts, *pictures])} to {output}')
