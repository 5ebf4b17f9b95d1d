"""Draws a learning curve of runs to a PNG; see `launch/plot.sh`.

`launch/report.sh` draws everything that is known of runs, level by level.
"""

import argparse
import pathlib

from impala_tf import config as config_lib
from impala_tf.monitoring import metrics
from launch.report import curves
from launch.run import command_line
from launch.run import program
from launch.run import run_directory


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='plot.sh', description=__doc__)
  parser.add_argument('run_dirs', nargs='+', metavar='RUN_DIR')
  parser.add_argument('--output', default='learning_curve.png',
                      help='file to write (default: %(default)s)')
  parser.add_argument('--metric', default='episode_return',
                      help='a field of metrics.jsonl (default: %(default)s)')
  parser.add_argument('--x', default='frames', choices=('frames', 'secs',
                                                        'updates'),
                      help='what runs along (default: %(default)s)')
  return parser.parse_args()


def _plot(args: argparse.Namespace) -> None:
  figure, ((axes,),) = curves.grid(1, 1, width=8, height=4.5)
  for run_dir in args.run_dirs:
    run_directory.reach(run_dir)
    points = curves.points(curves.read_rows(run_dir), args.metric, args.x)
    if not points:
      raise config_lib.UserError(
          f'{run_dir} has no {args.metric} in its {metrics.FILE_NAME}; is it '
          'the directory of a run that has logged it?')
    axes.plot(*zip(*points), label=_label(pathlib.Path(run_dir)))
  axes.set_xlabel({'frames': 'environment frames', 'secs': 'seconds',
                   'updates': 'learner updates'}[args.x])
  ylabel = args.metric.replace('_', ' ')
  if args.metric == 'episode_return':
    ylabel = 'mean return of full episodes'
  axes.set_ylabel(ylabel)
  axes.grid(alpha=0.3)
  axes.legend()
  curves.save(figure, args.output)
  print(f'wrote {args.output}')


def _label(run_dir: pathlib.Path) -> str:
  """Returns the run's name, with a note where an evaluator's rows are drawn."""
  if run_dir.name == program.EVALUATION:
    return f'{run_dir.parent.name}, evaluated'
  return run_dir.name


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _plot(_parse_args()))


if __name__ == '__main__':
  program.end(main())
