"""The start of a new run from another run's parameters (--init_from).

    python -m impala_tf.cli.warm_start RUN_DIR SOURCE [MODULE ...]

writes the first checkpoint of a run that has its config and nothing else. It is
a process of its own, before all others, since the supervisor imports no
TensorFlow; whoever learns then resumes from that checkpoint. The modules are
those of --import.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
from typing import Optional, Tuple

from impala_tf import config as config_lib
from impala_tf.cli import checkpoint_flag
from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import run_directory
from impala_tf.runtime import child
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import user_modules

_FLAG = 'init_from'


def add_flag(parser: argparse.ArgumentParser) -> None:
  """Adds the flag --init_from, see `begin`."""
  parser.add_argument(f'--{_FLAG}', metavar='RUN_DIR[:best]',
                      help='a new run begins with the parameters of another '
                      "run's newest checkpoint, its :best, or that of so many "
                      'updates (RUN_DIR:1200); heads of another size start '
                      'fresh, and so does the optimiser')


def parse(source: str) -> Tuple[str, checkpoint_flag.Which]:
  """Splits a value of --init_from into directory and checkpoint."""
  directory, _, which = source.rpartition(':')
  if directory and re.fullmatch(r'newest|best|\d+', which):
    return directory, checkpoint_flag.parse(which)
  return source, checkpoint_flag.parse('newest')


def begin(run_dir: str, source: Optional[str], resuming: bool) -> None:
  """Writes a run's first checkpoint, and tells what is in it.

  Args:
    run_dir: directory of the run, which is claimed and holds its config.
    source: value of --init_from; None: nothing is done.
    resuming: whether the run was there before. Unless it ended before it had
      begun, nothing is done but to say so.

  Raises:
    UserError: where the parameters do not fit, or there are none.
    RunFailed: where the process failed.
  """
  if source is None:
    return
  if resuming and run_directory.has_learned(run_dir):
    print(f'  --{_FLAG} is left out: the run has begun already', flush=True)
    return
  ran = subprocess.run(
      [sys.executable, '-m', 'impala_tf.cli.warm_start', run_dir, source,
       *user_modules.sources()],
      stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
      env={'TF_CPP_MIN_LOG_LEVEL': '2', **os.environ})
  if ran.returncode == child.BAD_INPUT:
    complaints = [line[len(child.COMPLAINT):] for line in
                  ran.stderr.splitlines() if line.startswith(child.COMPLAINT)]
    raise config_lib.UserError(f'--{_FLAG}: {" ".join(complaints)}')
  if ran.returncode:
    raise program_lib.RunFailed(
        f'--{_FLAG} ended with exit code {ran.returncode}:\n{ran.stderr}')
  lines = ran.stdout.splitlines()
  history.add(run_dir, began_from=source, parameters=lines)
  for line in lines:
    print(f'  {line}', flush=True)


def _write(run_dir: str, source: str, *modules: str) -> None:
  directory, which = parse(source)
  run_directory.reach(directory)
  # Lines that the user's modules print are kept out of this program's answer.
  with contextlib.redirect_stdout(sys.stderr):
    user_modules.load(modules)
    # Here, since it imports TensorFlow, which takes seconds.
    from impala_tf.roles import warm_start
    lines = warm_start.write_first_checkpoint(
        gin_config.load(gin_config.config_path(run_dir)), run_dir, directory,
        which)
  for line in lines:
    print(line)


if __name__ == '__main__':
  program.end(program.run(lambda: _write(*sys.argv[1:])))
