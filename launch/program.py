"""What the programs have in common: how they begin and how they end."""

import signal
import sys
from typing import Callable, Optional

from impala_tf import config as config_lib
from impala_tf import sizing
from impala_tf.suites import levels

BAD_INPUT = 2
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
EVALUATION = 'evaluation'  # In the run directory: what an evaluator writes.


def run(action: Callable[[], Optional[int]]) -> int:
  """Runs a program; of bad input it says one line.

  Args:
    action: returns the exit code, or None for 0.

  Returns:
    The exit code.
  """
  try:
    return action() or 0
  except config_lib.UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return BAD_INPUT


def show_beginning(config: config_lib.Config, run_dir: str,
                   resuming: bool) -> None:
  """Says what is trained where, and what was chosen for it."""
  print(f'{"Resuming" if resuming else "Training"} '
        f'{levels.short_name(config.environment.level)} in {run_dir}')
  for choice in sizing.explain(config):
    print(f'  {choice}', flush=True)


def open_port(port: Optional[int], server: str = 'Reverb') -> str:
  """A warning; None is for a port that is yet to be chosen."""
  name = 'a port' if port is None else f'port {port}'
  return (f'{name} is open to every machine that reaches this one, and '
          f'{server} asks nobody who he is (docs/cluster.md: what to close)')


def conclude(run_dir: str, signum: Optional[int]) -> int:
  """Says how training ended.

  Args:
    run_dir: of the run.
    signum: that ended it; None where it is done.

  Returns:
    The exit code.
  """
  if signum is None:
    print(f'Done; evaluate with ./launch/evaluate.sh {run_dir}')
    return 0
  print(f'Stopped, checkpoint written; the same command with '
        f'--run_dir={run_dir} resumes')
  return 128 + signum
