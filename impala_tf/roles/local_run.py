"""A run on this machine, the same for the command and the Python API.

It does not import TensorFlow, except to train in this process.
"""

import contextlib
import functools
import math
import pathlib
from typing import Any, Callable, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.roles import beginning
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import local
from impala_tf.runtime import ports
from impala_tf.runtime import role_commands
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals
from impala_tf.runtime import supervisor as supervisor_lib
from impala_tf.runtime import waiting
from impala_tf.storage import files

_POLL_SECS = 0.2  # Of the supervisor.


class Ports(NamedTuple):
  """Ports at which the processes of a run find one another."""
  reverb: list[int]  # Of each learner's server, for its actors.
  tensorflow: list[int]  # Of each learner for the others; none for a single.


def choose_ports(first: int | None, num_learners: int) -> Ports:
  """Finds free ports; raises UserError if a port from `first` on is taken."""
  try:
    reverb = ports.choose_free(num_learners) if first is None else [
        ports.choose(first + i) for i in range(num_learners)]
  except OSError as error:
    raise config_lib.UserError(f'--port: {error}') from error
  if num_learners == 1:
    return Ports(reverb, [])
  return Ports(reverb, ports.choose_free(num_learners, besides=reverb))


def wait_secs(config: config_lib.Config) -> float:
  """Returns the longest time that a learner waits for unrolls, in seconds."""
  # An environment that hangs is noticed after its timeout, and may take as long
  # to start anew.
  return waiting.LIMIT_SECS + 2 * config.actor.env_timeout_secs


@contextlib.contextmanager
def begun(run_dir: str, config: config_lib.Config, chosen: Ports,
          why_public: str | None, allow_changes: bool = False,
          init_from: str | None = None):
  """Makes or resumes a run, and locks its directory until the context ends.

  `why_public` says why other machines can reach it; None if they cannot. The
  rest is as in `run_directory.claim` and `beginning.warm_start`.
  """
  with run_directory.claim(run_dir, config, allow_changes) as resuming:
    beginning.show_beginning(config, run_dir, resuming)
    beginning.warm_start(run_dir, init_from, resuming)
    beginning.show_network(
        [('Reverb', None)] if config.experiment.in_process else
        [('Reverb', port) for port in chosen.reverb] +
        [('TensorFlow', port) for port in chosen.tensorflow], why_public)
    if not config.experiment.in_process:
      beginning.show_logs(run_dir)
    yield


@contextlib.contextmanager
def supervisor(config: config_lib.Config, run_dir: str, chosen: Ports,
               sharing: control_lib.Sharing = control_lib.NOT_SHARED,
               profile: bool = False, evaluate: bool = False,
               is_done: Callable[[], bool] | None = None):
  """Yields a run's supervisor; reserves actors' cores until the context ends.

  `is_done` says whether the learner, in another place, has ended; None if
  learners are processes of the supervisor, too.
  """
  addresses = [f'localhost:{port}' for port in chosen.reverb]
  joint_addresses = [f'localhost:{port}' for port in chosen.tensorflow]
  # Simulators may change the directory of a process.
  run_dir_flag = f'--run_dir={files.absolute(run_dir)}'
  flags = [run_dir_flag, *sharing.flags(), *(['--profile'] * profile)]
  num_updates = run_directory.newest_checkpoint(run_dir) or 0
  fitted = sizing.fit(config)
  make_program = functools.partial(
      local.LocalProgram,
      log_dir=pathlib.Path(run_directory.logs_path(run_dir)))

  def actor(task, attempt):
    core_flags = [f'--core={core_of[task]}'] if core_of else []
    return role_commands.actor(
        addresses[task % len(addresses)], task, attempt, *flags, *core_flags,
        num_updates=num_updates)

  def evaluator(attempt):
    return role_commands.command(
        'evaluator', addresses[0], f'--seed={attempt}', run_dir_flag)

  with cores.claim(fitted) as core_of:
    learners = supervisor_lib.LearnerPrograms(
        0 if is_done else len(addresses), make_program,
        config.actor.max_restarts, config.actor.restart_window_secs, lambda: [
            role_commands.learner(address, task, joint_addresses, *flags,
                                  f'--wait_secs={wait_secs(config):g}')
            for task, address in enumerate(addresses)], is_done)
    yield supervisor_lib.Supervisor(
        learners, make_program, actor,
        0 if config.learner_plays else sizing.fitted(fitted.actor.num_actors),
        evaluator if evaluate else None, _POLL_SECS)


class Stopped(Exception):
  """Error of a request to stop before there is anything to save."""


class LearnerProcess:
  """Control of a learner's loop: stops, limits waits, and informs the user."""

  def __init__(self, should_stop: Callable[[], bool], awaited: str,
               limit_secs: float, say: Callable[[str], None],
               check: Callable[[], None] = lambda: None, played: str = ''):
    """Prepares to wait for `awaited` (a name); `check` is polled and may raise.

    `say` reports the arrival of the first of `played`, a name, unless empty.
    """
    self._should_stop = should_stop
    self._limit_secs = limit_secs
    self._say = say
    self._check = check
    self._played = played
    self._waiting = self._wait_for(awaited)
    self._pausing = waiting.Waiting('slower agents', math.inf, say)
    self._num_batches = 0

  def control(self) -> control_lib.LoopControl:
    """Returns the callbacks for the learner's loop."""
    return control_lib.LoopControl(
        self._should_stop, self._before_batch, self._on_wait,
        self._pausing.poll)

  def _before_batch(self) -> None:
    self._check()
    secs = self._waiting.restart()
    self._pausing.restart()
    if self._num_batches == 1 and self._played:
      self._say(f'got the first {self._played} after {secs:.0f} s')
    self._num_batches += 1

  def _on_wait(self, cause: str) -> None:
    self._check()
    if not self._should_stop():
      self._waiting.poll(cause)

  def wait_for_replay(self, address: str) -> None:
    """Waits for the replay; Stopped on request, PeerMissing at the limit."""
    replay = self._wait_for(f'the replay at {address}')
    waiting.for_port(address, lambda cause: self._poll(replay, cause))
    self._waiting.restart()

  def _wait_for(self, peer: str) -> waiting.Waiting:
    return waiting.Waiting(peer, self._limit_secs, self._say)

  def _poll(self, wait: waiting.Waiting, cause: str) -> None:
    if self._should_stop():
      raise Stopped
    wait.poll(cause)


def learn_here(config: config_lib.Config, endpoint: control_lib.Endpoint,
               line: progress.ProgressLine, callbacks: Sequence[Any] = (),
               check: Callable[[], None] | None = None) -> int | None:
  """Runs the learner in this process, with actors here or in others.

  `check` is called repeatedly, and raises an error if actors have failed.
  Returns the signal that ended the run; None if the run is done.
  """
  # Here, after all checks, since they import TensorFlow, which takes seconds.
  from impala_tf.roles import in_process
  from impala_tf.runtime import interfaces
  endpoint = endpoint._replace(run_dir=files.absolute(endpoint.run_dir))
  with stop_signals.StopSignals(note_first_only=True) as signals, (
      contextlib.suppress(Stopped)), files.directory_restored():
    process = LearnerProcess(
        lambda: signals.first is not None, 'unrolls', wait_secs(config),
        lambda text: print(text, flush=True), check or (lambda: None))
    if endpoint.sharing.replay_address is not None:
      process.wait_for_replay(endpoint.sharing.replay_address)
    run_learner = (in_process.run if config.experiment.in_process else
                   beginning.import_architecture(config).run_learner)
    run_learner(config, endpoint, process.control(),
                interfaces.Reports(line.show, callbacks))
  return signals.first
