"""The beginning of a run: checks, first checkpoint, lines for the terminal.

It does not import TensorFlow: programs that only start processes are quick.
"""

import importlib.util
import subprocess
import sys
from typing import Any, Sequence

from impala_tf import config as config_lib
from impala_tf.agents import torsos
from impala_tf.algorithms import table as algorithms
from impala_tf.envs import factory
from impala_tf.pbt import rules
from impala_tf.runs import history
from impala_tf.runs import run_directory
from impala_tf.runtime import child
from impala_tf.runtime import gpus
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from impala_tf.suites import levels

NEEDS_REVERB = 'training needs Reverb'


def check_reverb() -> None:
  """Raises UserError if Reverb is not installed for this Python."""
  if importlib.util.find_spec('reverb') is None:
    raise config_lib.UserError(
        f'{NEEDS_REVERB}, which exists for Linux on x86-64 and Python 3.10 or '
        '3.11 only; install Python 3.11 there (`uv python install 3.11`) and '
        'run ./launch/setup.sh')


def check_names(config: config_lib.Config) -> None:
  """Raises ConfigError for a bad level, algorithm, torso or reference score."""
  factory.check_levels(config)
  algorithms.check(config)
  torsos.check(config.agent.torso)
  if config.population.member_names:
    rules.find_references(config)


def import_architecture(config: config_lib.Config) -> Any:
  """Imports the module of the run's architecture, with its role functions."""
  return importlib.import_module(
      f'impala_tf.roles.{algorithms.architecture(config)}')


def show_title(config: config_lib.Config, run_dir: str, resuming: bool) -> None:
  """Prints the level and the directory of a run."""
  print(f'{"Resuming" if resuming else "Training"} '
        f'{levels.short_name(config.environment.level)} in {run_dir}')


def show_beginning(config: config_lib.Config, run_dir: str,
                   resuming: bool) -> None:
  """Prints the title, the run's sizes with their reasons, and the GPUs."""
  show_title(config, run_dir, resuming)
  is_shared = algorithms.architecture(config) == algorithms.SHARED_PARAMETERS
  for choice in (*(sizing.explain_workers(config) if is_shared else
                   sizing.explain(config)), gpus.explain()):
    if choice is not None:
      print(f'  {choice}', flush=True)


def warm_start(run_dir: str, source: str | None, resuming: bool) -> None:
  """Writes a run's first checkpoint with parameters of `source`; prints which.

  `run_dir` is claimed and holds its config; `source` is the value of
  --init_from. If the run has learned already, it only prints that. Raises
  UserError if no parameters are there, or fit; RunFailed if the process failed.
  """
  if source is None:
    return
  if resuming and run_directory.has_learned(run_dir):
    print('  --init_from is ignored: the run has begun already', flush=True)
    return
  ran = subprocess.run(
      [sys.executable, '-m', 'impala_tf.cli.warm_start',
       files.absolute(run_dir), source, *user_modules.sources()],
      stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
  if ran.returncode == child.BAD_INPUT:
    complaints = [line[len(child.COMPLAINT):] for line in
                  ran.stderr.splitlines() if line.startswith(child.COMPLAINT)]
    raise config_lib.UserError(f'--init_from: {" ".join(complaints)}')
  # An environment that ends its process with 0 leaves no checkpoint.
  if ran.returncode or run_directory.newest_checkpoint(run_dir) is None:
    raise program_lib.RunFailed(
        f'--init_from ended with exit code {ran.returncode} and no '
        f'checkpoint:\n{ran.stderr}')
  lines = ran.stdout.splitlines()
  history.add(run_dir, began_from=source, parameters=lines)
  for line in lines:
    print(f'  {line}', flush=True)


def show_remarks(config: config_lib.Config, environment: Any) -> None:
  """Prints remarks on a batch's levels, and the torso of pictures if 'auto'."""
  for remark in environment.remarks:
    child.remark(remark)
  shape = environment.observation_spec().shape
  if config.agent.torso == torsos.AUTO and len(shape) == 3:
    child.remark(f'AgentConfig.torso is {torsos.fitting(torsos.AUTO, shape)!r} '
                 f'for pictures {list(shape)}')


def show_logs(run_dir: str) -> None:
  """Prints the directory of the logs if the run directory is a URL."""
  if files.is_url(run_dir):
    print(f'  logs of its processes in {run_directory.logs_path(run_dir)}',
          flush=True)


def show_network(open_ports: Sequence[tuple[str, int | None]],
                 why_public: str | None) -> None:
  """Prints who can reach the run; for `why_public` see `local_run.begun`."""
  if why_public is None:
    print('  a private network: no other machine can reach this run',
          flush=True)
  else:
    for server, port in open_ports:
      print(f'  {open_port(port, server)}; {why_public}', flush=True)


def open_port(port: int | None, server: str = 'Reverb') -> str:
  """Returns a warning of an open port; `port` is None if not chosen yet."""
  name = 'a port' if port is None else f'port {port}'
  return (f'{name} is open to every machine that reaches this one, and '
          f'{server} has no password (docs/cluster.md: what to close)')
