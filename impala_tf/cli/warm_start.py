"""The start of a new run from another run's parameters (--init_from).

    python -m impala_tf.cli.warm_start RUN_DIR SOURCE [MODULE ...]

writes the first checkpoint of a run that has its config and nothing else. It is
a separate process, before all others, since the supervisor does not import
TensorFlow; the learner then resumes from that checkpoint. The modules are those
of --import.
"""

import contextlib
import re
import sys

from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runtime import gpus
from impala_tf.runtime import user_modules


def parse(source: str) -> tuple[str, str | int]:
  """Splits a value of --init_from into directory and checkpoint."""
  directory, _, which = source.rpartition(':')
  if directory and re.fullmatch(r'newest|best|\d+', which):
    return directory, program.parse_checkpoint(which)
  return source, 'newest'


def _write(run_dir: str, source: str, *modules: str) -> None:
  gpus.hide()
  directory, which = parse(source)
  run_directory.reach(directory)
  # Lines that the user's modules print are kept out of this program's answer.
  with contextlib.redirect_stdout(sys.stderr):
    user_modules.load(modules)
    # Here, since it imports TensorFlow, which takes seconds.
    from impala_tf.roles import learner_state
    lines = learner_state.write_first_checkpoint(
        gin_config.load(gin_config.config_path(run_dir)), run_dir, directory,
        which)
  for line in lines:
    print(line)


if __name__ == '__main__':
  program.end(program.run(lambda: _write(*sys.argv[1:])))
