"""Plays full games with a run's newest parameters; see `launch/evaluate.sh`.

The paper's protocol (section 5.3.2): up to 30 no-op actions at the start, games
of at most 30 minutes, raw rewards, sampled actions, memory carried through.
"""

import argparse
import json
import os
import pathlib
import sys

from impala_tf import config as config_lib
from impala_tf.suites import atari57
from launch import gin_config

_MAX_ENVS = 32
_MAX_SEED = 2**30  # Emulators take an int32, and each has its own.
_VIDEO_FRAMES_PER_SEC = 60  # Of the emulator.


def _parse_args() -> argparse.Namespace:
  parser = argparse.ArgumentParser(prog='evaluate.sh', description=__doc__)
  parser.add_argument('run_dir', help='of a training run')
  parser.add_argument('--episodes', type=int, default=200,
                      help='full games to play (default: %(default)s)')
  parser.add_argument('--seed', type=int, default=0,
                      help='of games and actions (default: %(default)s)')
  parser.add_argument('--output', help='where to write the result as JSON '
                      '(default: RUN_DIR/evaluation.json)')
  parser.add_argument('--video', metavar='OUT.mp4',
                      help='record the first game as the agent sees it')
  return parser.parse_args()


class _Video:
  """Records the first environment's first episode."""

  def __init__(self, path: str, environment):
    import imageio
    self._environment = environment
    self._writer = imageio.get_writer(
        path, fps=_VIDEO_FRAMES_PER_SEC / environment.frames_per_step,
        macro_block_size=2)

  def on_step(self, num_ended: int) -> None:
    """Adds the picture of this moment."""
    if not num_ended:
      self._writer.append_data(self._environment.render())

  def close(self) -> None:
    """Ends the file."""
    self._writer.close()


def _evaluate(args: argparse.Namespace) -> dict:
  config_path = gin_config.config_path(args.run_dir)
  if not os.path.exists(config_path):
    raise config_lib.UserError(
        f'{args.run_dir} holds no config.gin; is it the directory of a run?')
  if args.episodes < 1:
    raise config_lib.UserError(
        f'--episodes must be at least 1, but is {args.episodes}')
  if not 0 <= args.seed < _MAX_SEED:
    raise config_lib.UserError(
        f'--seed must be 0 to {_MAX_SEED - 1}, but is {args.seed}')
  output = pathlib.Path(args.output or
                        os.path.join(args.run_dir, 'evaluation.json'))
  for path in (output, args.video):
    if path and not _can_write(pathlib.Path(path)):
      raise config_lib.UserError(f'{path} cannot be written; choose another')
  config = gin_config.load(config_path)

  from impala_tf import checkpoint  # TensorFlow takes seconds to import.
  from impala_tf import evaluation
  from impala_tf import experiment
  agent, trained_frames = checkpoint.load_agent(args.run_dir)
  environment = experiment.make_environment(
      config, min(args.episodes, _MAX_ENVS), args.seed, training=False)
  video = _Video(args.video, environment) if args.video else None
  result = evaluation.evaluate(
      agent, environment, args.episodes, args.seed,
      *([video.on_step] if video else []))
  if video:
    video.close()
  level = environment.level  # That was played: a held-out variant, maybe.
  report = {'level': level, 'trained_frames': trained_frames,
            'seed': args.seed, **result.summary()}
  if level in atari57.LEVELS:
    report['human_normalised_score'] = atari57.human_normalised_score(
        level, report['mean'])
  _write(output, {**report, 'returns': result.returns})
  report['written_to'] = str(output)
  return report


def _can_write(path: pathlib.Path) -> bool:
  """Before an hour of games, not after."""
  parent = path.resolve().parent
  return (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
          and not path.is_dir())


def _write(path: pathlib.Path, report: dict) -> None:
  new = path.with_name(path.name + '.new')
  new.write_text(json.dumps(report, indent=2) + '\n', encoding='utf-8')
  os.replace(new, path)


def main() -> int:
  """Returns the exit code."""
  try:
    report = _evaluate(_parse_args())
  except config_lib.UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return 2
  for name, value in report.items():
    print(f'{name:24}{value}')
  return 0


if __name__ == '__main__':
  sys.exit(main())
