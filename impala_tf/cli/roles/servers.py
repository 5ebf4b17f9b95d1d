"""Programs of the roles that other roles connect to: learner and replay."""

import argparse
import contextlib
import shlex
import signal
from typing import Any, Callable, Mapping

from impala_tf import config as config_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.cli import program
from impala_tf.cli.roles import flags as role_flags
from impala_tf.roles import beginning
from impala_tf.roles import local_run
from impala_tf.runs import gin_config
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.runs import sharing
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import leftovers
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from impala_tf.runtime import wording
from impala_tf.storage import files


class Process(local_run.LearnerProcess):
  """A learner role's process: its signals, and its waits for peers."""

  def __init__(self, args: argparse.Namespace, addresses: list[str],
               config: config_lib.Config):
    """Prints which peers the learner waits for, if it was started by hand.

    `addresses` are those of several learners for one another.
    """
    played = 'unrolls'
    awaited = f'unrolls that actors send to {args.address}'
    if addresses:
      awaited += ' and to the other learners'
    if config.learner_plays:
      awaited = 'the environments of this learner'
    if algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
      played = 'segments'
      awaited = ('segments of workers, whose actors find this learner at '
                 f'{args.address}')
    self.signals: list[int] = []  # That came; any ends the loop.
    self._args = args
    self._addresses = addresses
    super().__init__(lambda: bool(self.signals), awaited, args.wait_secs,
                     role_flags.make_say(args), played=played)
    if not args.supervised:
      self._waiting.poll()  # What follows takes seconds.

  def join(self) -> Any:
    """Joins all learners; raises Stopped, or PeerMissing if one is late."""
    from impala_tf.runtime import learner_group
    if not self._addresses:
      return learner_group.alone()
    others = self._wait_for('the other learners')
    learners = learner_group.join(self._args.task, self._addresses,
                                  lambda cause: self._poll(others, cause))
    self._say(f'all {learners.number} are there after {others.restart():.0f} s')
    _note_signals(self.signals)  # TensorFlow has taken SIGTERM.
    self._waiting.restart()
    return learners


def _note_signals(signals: list[int], supervised: bool = False) -> None:
  """Adds signals to a list from now on, SIGTERM if the supervisor dies."""
  stop_signals.handle(lambda signum, unused_frame: signals.append(signum))
  if supervised:
    child_lib.stop_with_parent(lambda: signals.append(signal.SIGTERM))


def _learn(args: argparse.Namespace, config: config_lib.Config, run_dir: str,
           on_row: Callable[[Mapping[str, Any]], None] = lambda row: None
           ) -> int | None:
  """Runs the learner until done or stopped; returns the signal, or None."""
  addresses = role_flags.learner_addresses(args, config.learner.num_learners)
  process = Process(args, addresses, config)
  # Here, since they import TensorFlow, which takes seconds.
  from impala_tf.runtime import interfaces
  architecture = beginning.import_architecture(config)
  # Before, there is nothing to save.
  _note_signals(process.signals, args.supervised)
  _, port = role_flags.parse_address(args.address)
  endpoint = control_lib.Endpoint(
      files.absolute(run_dir), port, role_flags.sharing(args))
  is_done = False
  with contextlib.suppress(local_run.Stopped), files.directory_restored():
    if args.replay_address is not None:
      process.wait_for_replay(args.replay_address)
    is_done = architecture.run_learner(
        config, endpoint, process.control(),
        interfaces.Reports(on_row, profile=args.profile), process.join)
  if process.signals:
    return process.signals[0]
  return None if is_done else signal.SIGTERM  # That another learner was sent.


def learner_config(args: argparse.Namespace) -> config_lib.Config:
  """Reads the config; raises UserError if separate roles cannot train it."""
  config = role_flags.load_config(args)
  setting = None
  if config.actor.synchronisation == 'trajectory':
    setting = "ActorConfig.synchronisation = 'trajectory'"
  elif algorithms.architecture(config) == algorithms.SHARED_PARAMETERS:
    setting = f'ExperimentConfig.algorithm = {config.experiment.algorithm!r}'
  if setting is not None and config.actor.num_actors is None:
    raise config_lib.UserError(
        f'{setting} needs ActorConfig.num_actors where actors are started one '
        'by one: their machines may have other numbers of cores')
  sizing.fit(config)  # Refuses more levels than environments.
  return config


def run_learner(args: argparse.Namespace) -> int:
  """Runs the learner to its end; returns the exit code."""
  if args.supervised:  # The supervisor kills what is left.
    config = gin_config.load(gin_config.config_path(args.run_dir))
    signum = _learn(args, config, args.run_dir)
    return 128 + signum if signum else child_lib.DONE
  config = learner_config(args)
  addresses = role_flags.learner_addresses(args, config.learner.num_learners)
  open_ports = {'Reverb': role_flags.free_port(args.address)}
  if addresses:
    open_ports['TensorFlow'] = role_flags.free_port(
        addresses[args.task], '--learners')
  run_dir = args.run_dir or run_directory.fresh_path(config.environment.level)
  is_chief = not addresses or args.task == 0
  with contextlib.ExitStack() as stack:
    stack.enter_context(leftovers.killed_at_end())
    resuming = is_chief and stack.enter_context(
        run_directory.claim(run_dir, config, args.allow_changes))
    beginning.show_beginning(config, run_dir, resuming)
    if is_chief:
      beginning.warm_start(run_dir, args.init_from, resuming)
    for server, port in open_ports.items():
      print(f'  {beginning.open_port(port, server)}')
    if not config.learner_plays:
      last = sizing.fitted(sizing.fit(config).actor.num_actors) - 1
      numbers = f'{args.task} to {last} in steps of {len(addresses)}'
      print(f'  its actors: {wording.command("role")} actor '
            f'--address={shlex.quote(args.address)} '
            f'{shlex.join([*user_modules.flags(), "--task=N"])}, N = '
            f'{numbers if addresses else f"0 to {last}"}', flush=True)
    with progress.ProgressLine(config) as line:
      signum = _learn(args, config, run_dir, line.show)
  if signum is not None and not is_chief:  # It may not be written yet.
    print('Stopped; learner 0 writes the checkpoint')
    return 128 + signum
  return program.conclude(run_dir, signum)


def run_replay(args: argparse.Namespace) -> int:
  """Serves the replay until a signal comes; returns the exit code."""
  config = gin_config.load(args.config, args.gin_binding)
  beginning.check_names(config)
  sharing.check_sampling(config)
  if config.replay.survives_resume and not args.run_dir:
    raise config_lib.UserError(
        'ReplayConfig.survives_resume needs --run_dir of the replay, where it '
        'is saved')
  say = role_flags.make_say(args)
  port = role_flags.free_port(args.address)
  with contextlib.ExitStack() as stack:
    if args.run_dir and args.supervised:  # The supervisor has claimed it.
      files.make_directory(args.run_dir)
    elif args.run_dir:
      stack.enter_context(run_directory.claim(args.run_dir, config))
    if not args.supervised:
      say(beginning.open_port(port))
    # Here, since it imports TensorFlow, which takes seconds.
    from impala_tf.roles import replay_server
    signals: list[int] = []
    _note_signals(signals, args.supervised)
    replay_server.run(
        config, port, args.num_agents, role_flags.absent_agents(args),
        args.run_dir, lambda: bool(signals), say)
  return 128 + signals[0]
