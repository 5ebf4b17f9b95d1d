"""Writes a run's agent into a directory to share.

The directory holds the config, a description of the network and the parameters,
without the optimiser: a third of a checkpoint. It can be played
(`evaluate`, `impala_tf.load_policy`) and begun from (--init_from).
"""

import argparse
import errno
import os
import pathlib
import shutil
from typing import Any

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.plots import suite_results
from impala_tf.roles import scores
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import model_card
from impala_tf.runs import recorded_results
from impala_tf.runs import run_directory
from impala_tf.runtime import gpus
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from impala_tf.runtime import wording
from impala_tf.storage import files
from impala_tf.storage import shipped


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('run_dir', help='of a training run, a path or a URL, or '
                      'the name of a shipped agent, such as pong')
  parser.add_argument('output', help='directory to be made, a path')
  program.add_import(parser)
  program.add_checkpoint(parser)
  parser.add_argument('--format', choices=('agent', 'saved_model'),
                      default='agent', help='saved_model is for TensorFlow '
                      'without this package; see docs/checkpoints.md (default: '
                      '%(default)s)')
  parser.add_argument('--float16', action='store_true',
                      help='round the parameters, for half the size')
  parser.add_argument('--card', action='store_true',
                      help='add a model card, README.md, with the scores of '
                      "the run's evaluation.json and a video of a game")
  parser.add_argument('--license', metavar='NAME', default='other',
                      help='of the card, such as apache-2.0 (default: '
                      '%(default)s)')
  parser.add_argument('--push_to_hub', metavar='USER/MODEL',
                      help='upload the directory, with a card, as this model '
                      'of the Hugging Face Hub, public if it is new; first '
                      'run hf auth login')
  args = parser.parse_args()
  if args.push_to_hub:
    args.card = True
    user_modules.check_installed('huggingface_hub', 'hub', '--push_to_hub')
  if args.format == 'saved_model' and (args.card or args.float16):
    raise config_lib.UserError(
        '--card, --push_to_hub and --float16 are for --format=agent')
  return args


@program.returning_exit_code
@stop_signals.interrupting()
def main() -> None:
  """Writes the agent's directory whole or not at all; prints a summary."""
  args = _parse_args()
  gpus.hide()
  which = program.parse_checkpoint(args.checkpoint)
  run_directory.reach(args.run_dir)
  run_dir = shipped.find_agent(args.run_dir)
  config_path = scores.check(args.run_dir)
  output = pathlib.Path(files.absolute(args.output))  # Simulators may chdir.
  run_directory.check_writable(output, 'output')
  if output.exists():
    raise config_lib.UserError(
        f'{output} is there already; choose another directory')
  user_modules.load(args.modules)
  config = gin_config.load(config_path)
  flags = ['--episodes=1', *user_modules.flags()]
  if not args.modules and any('--import' in entry.get('command', '')
                              for entry in history.read(run_dir)):
    flags.append('--import=FILE.py')  # That of the run.

  from impala_tf.agents import saved  # TensorFlow takes seconds to import.
  from impala_tf.agents import saved_model
  loaded = saved.load_agent(run_dir, which)
  new = output.with_name(f'{output.name}.new{os.getpid()}')
  try:
    if args.format == 'saved_model':
      saved_model.write(loaded, str(new))
    else:
      saved.export_agent(loaded, str(new), args.float16)
      files.write(gin_config.config_path(str(new)),
                  gin_config.dumps(config).encode('utf-8'))
    if args.card:
      _add_card(str(new), run_dir, config, loaded, args, ' '.join(flags))
    os.rename(new, output)
  except BaseException:
    shutil.rmtree(new, ignore_errors=True)
    raise
  size = sum(path.stat().st_size for path in output.rglob('*.*'))
  usage = f'{wording.command("evaluate")} {output} {" ".join(flags)}'
  if args.format == 'saved_model':
    usage = f'model = tf.saved_model.load({str(output)!r})'
  print(f'{output} holds {loaded.checkpoint} of {args.run_dir}, '
        f'{loaded.num_frames:,d} frames, in {size / 1e3:,.0f} kB; try {usage}')
  if args.push_to_hub:
    print(f'uploaded to {_upload(str(output), args.push_to_hub)}')


def _add_card(directory: str, run_dir: str, config: config_lib.Config,
              loaded: Any, args: argparse.Namespace, flags: str) -> None:
  """Writes a card, and a film if it can; raises UserError without a score."""
  suite, levels = scores.scored_levels(config.environment.level)
  path = scores.result_path(args.run_dir, f'_{suite.name}' if suite else '')
  results: list[recorded_results.Result] = []
  if files.exists(path):
    results = [recorded_results.of_evaluation(run_dir, result)
               for result in suite_results.read_levels(path).values()
               if not result.get('interrupted')]
  is_whole = ({result.task for result in results} >= set(levels) if suite else
              len(results) >= len(levels))
  if not is_whole or any(
      result.frames != loaded.num_frames for result in results):
    number = loaded.checkpoint.rpartition('-')[2]
    command = ' '.join([wording.command('evaluate'), args.run_dir,
                        f'--checkpoint={number}', *user_modules.flags()])
    raise config_lib.UserError(
        f'{path} has no score after {loaded.num_frames:,d} frames for the '
        f'card; run {command}')
  entries = history.read(run_dir)
  about = {
      'observations': f'{loaded.observation_spec.dtype} '
                      f'{list(loaded.observation_spec.shape)}',
      'environment arguments': dict(config.environment.kwargs) or '',
      "the author's modules": ' '.join(user_modules.flags()),
      'parameters': 'rounded to float16 after this score' * args.float16,
      'began from': '; '.join(
          entry['began_from'] for entry in entries if 'began_from' in entry),
      'config changed': '; '.join(
          change for entry in entries for change in entry.get('changed', []))}
  video = os.path.join(directory, model_card.VIDEO)
  try:
    scores.play_in_turn(
        scores.Games(1, seed=0, deterministic=False, video=video), config,
        [results[0].task], loaded, lambda level, result: None)
  except (config_lib.UserError, OSError) as error:
    print(f'\nthe card has no video: {error}')
  card = model_card.make(results, config.experiment.algorithm, args.license,
                         about, flags, os.path.exists(video))
  files.write(os.path.join(directory, model_card.FILE), card.encode('utf-8'))


def _upload(directory: str, name: str) -> str:
  """Uploads a directory as Hub model `name`, made if new; returns its URL.

  Raises RemoteError if the Hub refuses it or does not answer.
  """
  import huggingface_hub as hub
  try:
    url = hub.create_repo(name, exist_ok=True)
    hub.upload_folder(repo_id=name, folder_path=directory)
    return str(url)
  except Exception as error:  # Of several libraries.
    raise files.RemoteError(
        errno.EIO, f'{directory} is written, but the Hub has not taken it as '
        f'{name}: {files.one_line(error)}; try again with hf upload {name} '
        f'{directory}') from error
