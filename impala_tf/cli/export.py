"""Writes a run's agent into a directory to share.

The directory holds the config, a description of the network and the parameters,
without the optimiser: a third of a checkpoint. It can be played
(`evaluate`, `impala_tf.load_policy`) and begun from (--init_from).
"""

import os
import pathlib
import shutil

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runtime import command_names
from impala_tf.runtime import gpus
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from impala_tf.storage import shipped


@program.returning_exit_code
def main() -> None:
  """Writes the directory whole or not at all; prints its content."""
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('run_dir', help='of a training run, a path or a URL, or '
                      'box/pong')
  parser.add_argument('output', help='directory to be made, a path')
  program.add_import(parser)
  program.add_checkpoint(parser)
  parser.add_argument('--format', choices=('agent', 'saved_model'),
                      default='agent', help='saved_model is for TensorFlow '
                      'without this package; see docs/checkpoints.md (default: '
                      '%(default)s)')
  args = parser.parse_args()
  gpus.hide()
  which = program.parse_checkpoint(args.checkpoint)
  run_directory.reach(args.run_dir)
  config_path = gin_config.config_path(shipped.find_agent(args.run_dir))
  if not files.exists(config_path):
    raise config_lib.UserError(
        f'{args.run_dir} holds no config.gin; is it the directory of a run?')
  output = pathlib.Path(args.output)
  run_directory.check_writable(output, 'output')
  if output.exists():
    raise config_lib.UserError(
        f'{output} is there already; choose another directory')
  user_modules.load(args.modules)
  config = gin_config.load(config_path)

  from impala_tf.agents import saved  # TensorFlow takes seconds to import.
  from impala_tf.agents import saved_model
  loaded = saved.load_agent(args.run_dir, which)
  new = output.with_name(f'{output.name}.new{os.getpid()}')
  try:
    if args.format == 'saved_model':
      saved_model.write(loaded, str(new))
    else:
      saved.export_agent(loaded, str(new))
      files.write(gin_config.config_path(str(new)),
                  gin_config.dumps(config).encode('utf-8'))
    os.rename(new, output)
  except BaseException:
    shutil.rmtree(new, ignore_errors=True)
    raise
  size = sum(path.stat().st_size for path in output.rglob('*.*'))
  flags = ' '.join(['--episodes=1', *user_modules.flags()])
  usage = f'{command_names.command("evaluate")} {output} {flags}'
  if args.format == 'saved_model':
    usage = f'model = tf.saved_model.load({str(output)!r})'
  print(f'{output} holds {loaded.checkpoint} of {args.run_dir}, '
        f'{loaded.num_frames:,d} frames, in {size / 1e6:.1f} MB; try {usage}')
