"""Draws learning curves of runs to a PNG; see `launch/plot.sh`."""

import argparse
import pathlib
import sys

import matplotlib.figure

from impala_tf import config as config_lib
from impala_tf import metrics
from launch import program


def _parse_args() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog='plot.sh', description=__doc__)
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
  # Without pyplot, which may want a display.
  figure = matplotlib.figure.Figure(figsize=(8, 4.5), layout='constrained')
  axes = figure.subplots()
  for run_dir in args.run_dirs:
    rows = metrics.read_rows(run_dir)
    points = [(row[args.x], row[args.metric]) for row in rows
              if row.get(args.metric) is not None]
    if not points:
      raise config_lib.UserError(
          f'{run_dir} has no {args.metric} in its {metrics.FILE_NAME}; is it '
          'the directory of a run that has logged it?')
    axes.plot(*zip(*points), label=pathlib.Path(run_dir).name)
  axes.set_xlabel({'frames': 'environment frames', 'secs': 'seconds',
                   'updates': 'learner updates'}[args.x])
  ylabel = args.metric.replace('_', ' ')
  if args.metric == 'episode_return':
    ylabel = f'mean return of the last {metrics.EPISODE_WINDOW} episodes'
  axes.set_ylabel(ylabel)
  axes.grid(alpha=0.3)
  axes.legend()
  try:
    figure.savefig(args.output, dpi=120)
  except (OSError, ValueError) as error:
    raise config_lib.UserError(f'cannot write {args.output}: {error}; choose '
                               'another --output') from error
  print(f'wrote {args.output}')


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _plot(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
