"""The learner as a program of its own; see `launch/role.sh`."""

import argparse
import contextlib
import signal
from typing import Callable, List, Optional

from impala_tf import config as config_lib
from impala_tf.monitoring import metrics
from impala_tf.processes import ports
from impala_tf.processes import sizing
from impala_tf.processes import waiting as waiting_lib
from impala_tf.storage import files
from launch.processes import child as child_lib
from launch.processes import stop_signals
from launch.roles import flags as role_flags
from launch.run import gin_config
from launch.run import program
from launch.run import progress
from launch.run import run_directory


class _Stopped(Exception):
  """Asked to stop before there was anything to save."""


def _learn(args: argparse.Namespace, config: config_lib.Config, run_dir: str,
           on_row: Callable[[metrics.Row], None] = lambda row: None
           ) -> Optional[int]:
  """Returns the signal that ended it, if one did."""
  say = role_flags.make_say(args)
  addresses = role_flags.learner_addresses(args, config.learner.num_learners)
  waiting = waiting_lib.Waiting(
      f'unrolls that actors send to {args.address}' +
      ' and to the other learners' * bool(addresses), args.wait_secs, say)
  if not args.supervised:
    waiting.poll()  # Says so at once; what follows takes seconds.
  from impala_tf import experiment
  from impala_tf.processes import learner_group
  stopping: List[int] = []

  def handle_signals():
    for signum in ([signal.SIGTERM] if args.supervised
                   else stop_signals.STOP_SIGNALS):
      signal.signal(signum, lambda signum, frame: stopping.append(signum))

  handle_signals()
  if args.supervised:
    child_lib.stop_with_parent(lambda: stopping.append(signal.SIGTERM))
  num_batches = 0

  def before_batch():
    nonlocal num_batches
    secs = waiting.restart()
    if num_batches == 1:
      say(f'got the first unrolls after {secs:.0f} s')
    num_batches += 1

  def should_stop():
    if not stopping:
      waiting.poll()
    return bool(stopping)

  def join():
    learners = _join(args, addresses, say, stopping)
    handle_signals()  # TensorFlow has taken SIGTERM.
    waiting.restart()
    return learners

  _, port = role_flags.parse_address(args.address)
  is_done = False
  with contextlib.suppress(_Stopped):
    is_done = experiment.run_learner(
        config, run_dir, port, should_stop, args.profile, before_batch, on_row,
        join if addresses else learner_group.alone)
  if stopping:
    return stopping[0]
  return None if is_done else signal.SIGTERM  # That another learner was sent.


def _join(args: argparse.Namespace, addresses: List[str],
          say: Callable[[str], None], stopping: List[int]):
  """Waits for all learners; raises _Stopped once `stopping` is not empty."""
  from impala_tf.processes import learner_group
  others = waiting_lib.Waiting('the other learners', args.wait_secs, say)

  def poll(cause):
    if stopping:
      raise _Stopped
    others.poll(cause)

  learners = learner_group.join(learner_group.Place(args.task, addresses), poll)
  say(f'all {learners.number} are there after {others.restart():.0f} s')
  return learners


def _learner_config(args: argparse.Namespace) -> config_lib.Config:
  """What to train; raises UserError where it cannot be trained so."""
  path = args.config
  if path is None and args.run_dir:
    path = gin_config.config_path(args.run_dir)
    run_directory.reach(args.run_dir)
    if not files.exists(path):
      raise config_lib.UserError(f'{args.run_dir} holds no run to be resumed; '
                                 'give --config for a new one')
  if path is None:
    raise config_lib.UserError('a learner needs --config for a new run, or '
                               '--run_dir of one to be resumed')
  config = program.load_for_roles(path, args.gin_binding)
  sizing.fit(config)  # Refuses more levels than environments.
  return config


def _free_port(address: str, flag: str) -> int:
  """That of the address; raises UserError where it is taken."""
  try:
    return ports.choose(role_flags.parse_address(address)[1])
  except OSError as error:
    raise config_lib.UserError(f'{flag}: {error}') from error


def _actor_tasks(args: argparse.Namespace, config: config_lib.Config) -> str:
  """Of the actors that are this learner's share."""
  last = sizing.fit(config).actor.num_actors - 1
  if config.learner.num_learners == 1:
    return f'0 to {last}'
  return f'{args.task} to {last} in steps of {config.learner.num_learners}'


def run(args: argparse.Namespace) -> int:
  """Runs it to its end; returns the exit code."""
  if args.supervised:
    config = gin_config.load(gin_config.config_path(args.run_dir))
    signum = _learn(args, config, args.run_dir)
    return 128 + signum if signum else 0
  config = _learner_config(args)
  addresses = role_flags.learner_addresses(args, config.learner.num_learners)
  open_ports = {'Reverb': _free_port(args.address, '--address')}
  if addresses:
    open_ports['TensorFlow'] = _free_port(addresses[args.task], '--learners')
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  is_chief = not addresses or args.task == 0
  with contextlib.ExitStack() as stack:
    resuming = is_chief and stack.enter_context(
        run_directory.claim(run_dir, config))
    program.show_beginning(config, run_dir, resuming)
    for server, port in open_ports.items():
      print(f'  {program.open_port(port, server)}')
    print(f'  its actors: ./launch/role.sh actor --address={args.address} '
          f'--task=N, N = {_actor_tasks(args, config)}', flush=True)
    with progress.ProgressLine(config.experiment.total_frames) as line:
      signum = _learn(args, config, run_dir, line.show)
  return program.conclude(run_dir, signum)
