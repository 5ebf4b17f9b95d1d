"""Environments in separate processes that do not wait for each other.

Gymnasium's `AsyncVectorEnv` waits for all environments at every step, Tianshou
needs PyTorch, and EnvPool's environments are written in C++. So the protocol is
our own, on the standard library's processes, pipes and shared memory.

No process and no memory stay behind, however a process ends. `RawArray` removes
the name of its shared memory at once, and the kernel kills workers with the
thread that started them.
"""

import multiprocessing
from multiprocessing import connection as connection_lib
from multiprocessing import process as process_lib
import os
import selectors
import signal
import time
import traceback
from typing import Any, Callable, NamedTuple, Sequence

import dm_env
from dm_env import specs
import numpy as np
import tree

from impala_tf import config as config_lib
from impala_tf.envs import environment as environment_lib
from impala_tf.runtime import bound_to_parent
from impala_tf.runtime import child
from impala_tf.runtime import output
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from impala_tf.storage import files

# Simulators and TensorFlow do not survive a fork.
_CONTEXT = multiprocessing.get_context('spawn')
_POLL_SECS = 1.
_CLOSE_SECS = 5.
_MAX_BYTES = 1 << 16  # A pipe holds no more.

# Makes environment i as a batch of one; can be pickled.
MakeFn = Callable[[int], environment_lib.BatchedEnvironment]


class WorkerError(environment_lib.SimulatorError):
  """A failure in a worker process; the message names the environment."""


class _Shared(NamedTuple):
  """State that all processes share, as memory, as arrays [E, ...] or as specs.

  The first W entries of `at_work`, int32, are the environment that each worker
  makes, steps, or stepped last.
  """
  rows: Any  # `dm_env.TimeStep`, the environments' last.
  side_channels: Any  # `environment.SideChannels` with these rows.
  actions: Any  # Those that environments play next.
  at_work: Any


def _specs(env: environment_lib.BatchedEnvironment) -> _Shared:
  return _Shared(
      rows=dm_env.TimeStep(
          step_type=specs.Array((), np.uint8),
          reward=specs.Array((), np.float32),
          discount=specs.Array((), np.float32),
          observation=env.observation_spec()),
      side_channels=env.side_channel_specs(),
      actions=env.action_spec(),
      at_work=specs.Array((), np.int32))


def _arrays(memory: _Shared, shared_specs: _Shared, num_envs: int) -> _Shared:
  return tree.map_structure(
      lambda raw, spec: np.frombuffer(raw, spec.dtype).reshape(
          (num_envs,) + spec.shape), memory, shared_specs)


class Workers:
  """E environments in processes; each steps as soon as its action arrives.

  They reset themselves at the start, and `recv` returns those rows first.
  Worker w steps the environments w, w + W, ... in the order of their actions: a
  slow one delays only those in its process.

  Attributes:
    num_envs, frame_stack, reward_scale, level_index: see `BatchedEnvironment`.
    side_channels: `environment.SideChannels` [n, ...] of the rows that `recv`
      returned last.
    timeout_secs: seconds that a step, or the making of an environment, may
      take.
  """

  def __init__(self, make: MakeFn, num_envs: int, num_processes: int,
               timeout_secs: float, levels: Sequence[str] | None = None):
    """Starts W processes and waits until they have made their environments.

    Environment 0 is made and closed in this process, too, for its specs. The
    calling thread must outlive the object, since the kernel kills workers with
    it. `levels`, [E], are for messages.

    Raises UserError if environments cannot be made, WorkerError if one, or its
    process, fails.
    """
    probe = make(0)
    self._specs = _specs(probe)
    self.num_envs = num_envs
    self.frame_stack = probe.frame_stack
    self.reward_scale = probe.reward_scale
    self.side_channels = environment_lib.NO_SIDE_CHANNELS
    self.level_index = np.zeros(num_envs, np.int32)
    self.timeout_secs = timeout_secs
    self._levels = levels or [probe.level] * num_envs
    self._numbers = environment_lib.numbers()
    probe.close()
    # `RawArray`s of zeros, which a process can be given as it starts.
    memory = tree.map_structure(
        lambda spec: _CONTEXT.RawArray(
            'b', num_envs * int(np.prod(spec.shape)) * spec.dtype.itemsize),
        self._specs)
    self._shared = _arrays(memory, self._specs, num_envs)
    self._shared.at_work[:num_processes] = np.arange(num_processes)
    self._owner = np.arange(num_envs) % num_processes
    # For each worker: answers that it owes, and the time since its last one.
    self._num_pending = np.bincount(self._owner)
    self._silent_secs = np.zeros(num_processes)
    self._last_at_work = np.arange(num_processes)
    self._last_poll = time.monotonic()
    self._ready: list[int] = []  # Environments that `recv` has yet to return.
    self._num_started = 0
    self._processes: list[process_lib.BaseProcess] = []
    self._connections: list[connection_lib.Connection] = []
    self._selector = selectors.DefaultSelector()
    stop_signals.opened(self)
    try:
      self._start(make, memory, num_processes)
      while self._num_started < num_processes:
        self._poll()
    except BaseException:
      self.close()
      raise

  def _start(self, make: MakeFn, memory: _Shared, num_processes: int):
    # All workers write the numbers of environments that are ready into one
    # pipe: one system call reads it, and the kernel does not mix such short
    # writes. A worker has a connection for the numbers of environments with an
    # action. Its rare messages come there, and the end of file if it dies.
    self._answers, write_end = _CONTEXT.Pipe(duplex=False)
    self._selector.register(self._answers, selectors.EVENT_READ)
    for w in range(num_processes):
      connection, other_end = _CONTEXT.Pipe()
      process = _CONTEXT.Process(
          target=_serve, daemon=True,
          args=(user_modules.sources(), make, w, self._owner, self._specs,
                memory, other_end, write_end))
      process.start()
      other_end.close()  # While it is open here, there is no end of file.
      self._processes.append(process)
      self._connections.append(connection)
      self._selector.register(connection, selectors.EVENT_READ, w)
    write_end.close()

  def observation_spec(self) -> specs.Array:
    return self._specs.rows.observation

  def action_spec(self) -> specs.Array:
    return self._specs.actions

  def side_channel_specs(self) -> environment_lib.SideChannels:
    return self._specs.side_channels

  def send(self, numbers: np.ndarray, actions: np.ndarray) -> None:
    """Sends actions [n, ...] to environments, without waiting for their steps.

    `numbers`, int32 [n], are of environments that `recv` has returned and that
    have got no action since. Raises WorkerError if a worker has died.
    """
    self._shared.actions[numbers] = actions
    owners = self._owner[numbers]
    for w in np.unique(owners):
      asked = numbers[owners == w]
      self._num_pending[w] += len(asked)
      try:
        self._connections[w].send_bytes(asked.tobytes())
      except OSError:
        self._hear(w)

  def recv(self, min_ready: int = 1, on_wait: Callable[[], None] = lambda: None
           ) -> tuple[np.ndarray, dm_env.TimeStep]:
    """Waits for `min_ready` environments, and returns all that are ready then.

    Returns their numbers, int32 [n], and copies of their rows, [n, ...]. Calls
    `on_wait`, which may raise, at least once a second meanwhile.

    Raises UserError for an action that an environment does not have. Raises
    WorkerError if one fails, or does not answer for `timeout_secs`.
    """
    while len(self._ready) < min_ready:
      self._poll()
      on_wait()
    numbers = np.array(self._ready, np.int32)
    self._ready = []
    timestep, self.side_channels = tree.map_structure(
        lambda array: array[numbers],
        (self._shared.rows, self._shared.side_channels))
    return numbers, timestep

  def _poll(self):
    events = self._selector.select(_POLL_SECS)
    now = time.monotonic()
    # Time in which this process was busy or stopped does not count.
    self._silent_secs += (self._num_pending > 0) * min(
        now - self._last_poll, _POLL_SECS)
    self._last_poll = now
    # A worker may take as long for each of its environments.
    at_work = self._shared.at_work[:len(self._silent_secs)].copy()
    self._silent_secs[at_work != self._last_at_work] = 0
    self._last_at_work = at_work
    for key, _ in events:
      if key.fileobj is not self._answers:
        self._hear(key.data)
        continue
      numbers = np.frombuffer(os.read(key.fd, _MAX_BYTES), np.int32)
      self._ready += numbers.tolist()
      np.subtract.at(self._num_pending, self._owner[numbers], 1)
      self._silent_secs[self._owner[numbers]] = 0
    if self._silent_secs.max() > self.timeout_secs:
      raise WorkerError(
          f'{self._at_work(self._silent_secs.argmax())} has not answered for '
          f'{self.timeout_secs:g} s; if it may take so long, raise '
          'ActorConfig.env_timeout_secs')

  def _hear(self, w: int):
    """Reads a message of worker w.

    The first lists `level_index` of its environments, and the last of one that
    failed is an error, which is raised.
    """
    try:
      message = self._connections[w].recv()
    except (EOFError, OSError):
      message = WorkerError(f'its process {self._how_it_ended(w)}')
    if isinstance(message, Exception):
      raise type(message)(f'{self._at_work(w)}: {message}')
    self._num_started += 1
    self._silent_secs[w] = 0
    self.level_index[self._owner == w] = message

  def _at_work(self, w: int) -> str:
    i = self._shared.at_work[w]
    return f'environment {self._numbers[i]} ({self._levels[i]})'

  def _how_it_ended(self, w: int) -> str:
    self._processes[w].join(_CLOSE_SECS)
    code = self._processes[w].exitcode
    if code is not None and code < 0:
      return f'was killed by {signal.Signals(-code).name}'
    return f'ended with exit code {code}'

  def close(self) -> None:
    """Ends the processes; nothing may be called afterwards."""
    for connection in self._connections:
      connection.close()
    deadline = time.monotonic() + _CLOSE_SECS
    for process in self._processes:
      process.join(max(0., deadline - time.monotonic()))
      process.kill()
      process.join()
    self._selector.close()
    self._answers.close()  # Last, so that workers at a step can answer.
    stop_signals.closed(self)


@output.never_failing()  # Simulators may print.
def _serve(modules: Sequence[str], make: MakeFn, w: int, owner: np.ndarray,
           shared_specs: _Shared, memory: _Shared,
           connection: connection_lib.Connection,
           answers: connection_lib.Connection) -> None:
  # Daemons cannot start processes, as simulators may. The flag was for the
  # parent alone, whose exit must not wait for this process.
  multiprocessing.current_process().daemon = False
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is left to the parent.
  # Nothing else would end it during a step.
  parent = multiprocessing.parent_process()
  assert parent is not None and parent.pid is not None  # It has started.
  bound_to_parent.bind(parent.pid, signal.SIGKILL)
  child.refuse_breakpoints()
  shared = _arrays(memory, shared_specs, len(owner))
  try:
    user_modules.load(modules)
    _step_until_closed(make, w, owner, shared, connection, answers)
  except config_lib.UserError as error:  # A restart would repeat it.
    connection.send(config_lib.UserError(files.one_line(error, None)))
  except (Exception, SystemExit) as error:  # A simulator may raise anything.
    traceback.print_exc()
    cause = files.one_line(error, None)
    if not isinstance(error, environment_lib.SimulatorError):
      cause = f'{type(error).__name__}: {cause}'
    connection.send(WorkerError(cause))


def _step_until_closed(make, w, owner, shared, connection, answers):
  envs = {}

  def answer(i: int, timestep: dm_env.TimeStep):
    environment_lib.put_rows(
        (shared.rows, shared.side_channels), slice(i, i + 1),
        (timestep, envs[i].side_channels))
    os.write(answers.fileno(), np.int32(i).tobytes())

  try:
    for i in np.flatnonzero(owner == w).tolist():
      shared.at_work[w] = i
      envs[i] = make(i)
    connection.send([env.level_index[0] for env in envs.values()])
    for i, env in envs.items():
      shared.at_work[w] = i
      answer(i, env.reset())
    while True:
      try:
        asked = np.frombuffer(connection.recv_bytes(), np.int32)
      except (EOFError, ConnectionError):
        break
      for i in asked.tolist():
        shared.at_work[w] = i
        # A copy: an environment may keep what it is given.
        answer(i, envs[i].step(shared.actions[i:i + 1].copy()))
  finally:
    for env in envs.values():
      env.close()
