"""Simulators that are stepped in turn within one process."""

import abc
import bdb
import contextlib
import os
import sysconfig
import traceback
from typing import Any, Callable, Iterator, NamedTuple

from absl import logging
import dm_env
from dm_env import specs
import numpy as np

import impala_tf
from impala_tf import config as config_lib
from impala_tf.envs import environment
from impala_tf.runtime import child
from impala_tf.runtime import stop_signals
from impala_tf.storage import files

# A simulator that fails once in more steps than this loses an episode; one that
# fails more often, or at the beginning, has a mistake, and is not made anew.
_STEPS_A_FAILURE = 500
_STEPS_BEFORE_FIRST = 100
_WARNING_INTERVAL_SECS = 60

# From it a constructor can derive ports and directories; see `Simulators`.
_NUMBER_VARIABLE = 'IMPALA_TF_ENV_INDEX'

# Places of code that is not the user's.
_LIBRARIES = (*map(sysconfig.get_path, ('stdlib', 'purelib')),
              os.path.dirname(impala_tf.__file__) + os.sep)

# A simulator's code may raise anything. KeyboardInterrupt is the user's.
ERRORS = (Exception, SystemExit)


class Transition(NamedTuple):
  """The result of one step of one simulator."""
  observation: Any  # The one that ends the episode, too; unused if terminated.
  reward: float  # Raw.
  terminated: bool  # Whether nothing can follow, so that the value is 0.
  truncated: bool  # Whether a time limit ends it here; a termination wins.


class Simulators:
  """The simulators of a batch, each of which can be replaced by a new one."""

  def __init__(self, make: Callable[[int, int], Any], num_envs: int, seed: int,
               name: str = 'it'):
    """Makes E simulators; if one fails, closes those made before.

    `make` makes simulator i with a seed, at first `seed` + i. Meanwhile its
    constructor can read its number in the run from IMPALA_TF_ENV_INDEX. Raises
    ConfigError, with the simulator's `name`, for any error there.
    """
    self._make, self._seed, self._name = make, seed, name
    self._numbers = environment.numbers()
    self._num_remade = 0
    self._simulators: list[Any] = []
    stop_signals.opened(self)
    try:
      for i in range(num_envs):
        # Half a simulator could not be closed.
        with stop_signals.uninterrupted():
          self._simulators.append(self._made(i, seed + i))
    except BaseException:
      self.close()
      raise

  def _made(self, i: int, seed: int) -> Any:
    try:
      os.environ[_NUMBER_VARIABLE] = str(self._numbers[i])
      return self._make(i, seed)
    except config_lib.ConfigError:
      raise
    except bdb.BdbQuit as error:  # The user quits at a breakpoint.
      raise KeyboardInterrupt from error
    except ERRORS as error:
      raise config_lib.ConfigError(
          f'{self._name} does not start: {files.one_line(error, None)}'
      ) from error
    finally:
      os.environ.pop(_NUMBER_VARIABLE, None)

  def __getitem__(self, i: int) -> Any:
    return self._simulators[i]

  def __len__(self) -> int:
    return len(self._simulators)

  def remake(self, i: int) -> None:
    """Closes simulator i and makes it anew, with another seed."""
    close(self._simulators[i])
    self._num_remade += 1
    seeds = np.random.SeedSequence([self._seed + i, self._num_remade])
    new_seed = int(seeds.generate_state(1)[0] >> 2)
    with stop_signals.uninterrupted():
      self._simulators[i] = self._made(i, new_seed)

  def close(self) -> None:
    """Closes and removes all simulators; may be called twice."""
    while self._simulators:
      close(self._simulators.pop())
    stop_signals.closed(self)


class SerialEnvironment(environment.BatchedEnvironment):
  """E simulators that are stepped in turn.

  A subclass says how one of them begins an episode, and how it steps. Side
  channels are written there, too. All that they raise becomes a
  `SimulatorError`, except UserErrors.
  """

  def __init__(self, level: str, simulators: Simulators,
               action_spec: specs.BoundedArray, observation_spec: specs.Array,
               **options: Any):
    num_envs = len(simulators)
    super().__init__(level, num_envs, action_spec, observation_spec, **options)
    self._simulators = simulators
    self._observation = np.zeros(
        (num_envs, *observation_spec.shape), observation_spec.dtype)
    self._steps_played = 0  # Of all simulators together.
    self._num_failures = 0

  def moment_of(self, i: int) -> str:
    """Names environment i and its step since the start, for errors."""
    return f'{self.name_of(i)} (step {self._steps_played // self.num_envs:,})'

  @abc.abstractmethod
  def _begin(self, i: int) -> Any:
    """Begins an episode of simulator i; returns its first observation."""

  @abc.abstractmethod
  def _advance(self, i: int, action: Any) -> Transition:
    """Plays one agent step of simulator i."""

  @contextlib.contextmanager
  def _explained(self, i: int) -> Iterator[None]:
    try:
      yield
    except (config_lib.UserError, environment.SimulatorError):
      raise
    except bdb.BdbQuit as error:
      raise KeyboardInterrupt from error
    except ERRORS as error:
      raise environment.SimulatorError(
          f'{self.level}: {self.moment_of(i)} failed: {place_and_cause(error)}'
      ) from error

  def reset(self) -> dm_env.TimeStep:
    for i in range(self.num_envs):
      with self._explained(i):
        self._observation[i] = self._begin(i)
    return self._first(self._observation)

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    terminated, truncated = np.zeros((2, self.num_envs), bool)
    reward = np.zeros(self.num_envs)
    begins = self._was_truncated.copy()
    self._steps_played += self.num_envs
    for i in range(self.num_envs):
      try:
        with self._explained(i):
          if not begins[i]:
            observation, reward[i], terminated[i], truncated[i] = self._advance(
                i, actions[i])
          if begins[i] or terminated[i]:
            observation = self._begin(i)
          self._observation[i] = observation
      except environment.SimulatorError as error:
        self._begin_anew(i, error)
        reward[i], terminated[i], truncated[i] = 0, False, False
        begins[i] = True
    self._was_truncated = truncated & ~terminated
    return self._as_timestep(
        begins | terminated, reward, ~terminated, self._observation,
        self._was_truncated)

  def _begin_anew(self, i: int, error: environment.SimulatorError) -> None:
    """Replaces a failed simulator; raises `error` if failures are frequent."""
    self._num_failures += 1
    num_needed = (
        _STEPS_BEFORE_FIRST + (self._num_failures - 1) * _STEPS_A_FAILURE)
    if self._steps_played < num_needed:
      raise error
    try:
      with self._explained(i):
        self._simulators.remake(i)
        self._observation[i] = self._begin(i)
    except config_lib.UserError as again:  # It could be made before.
      raise environment.SimulatorError(f'{error}; {again}') from again
    if self._num_failures == 1:
      child.remark(f'{error}; its episode is lost, and it is made anew (logs '
                   'and the column episodes_lost have any further failures)')
    logging.log_every_n_seconds(
        logging.WARNING, '%s; its episode is lost, and it is made anew '
        '(failure %d in %d steps)', _WARNING_INTERVAL_SECS, error,
        self._num_failures, self._steps_played)

  def close(self) -> None:
    self._simulators.close()


def close(simulator: Any) -> None:
  """Closes a simulator; logs an error of its `close` and does not raise it."""
  try:
    simulator.close()
  except ERRORS as error:
    logging.warning('close() of an environment failed: %s',
                    place_and_cause(error))


def place_and_cause(error: BaseException) -> str:
  """Describes an error: the user's line of code that led to it, and why."""
  cause = files.one_line(error, None).partition(' was raised from the env')[0]
  # Gymnasium raises a TypeError anew.
  origin = getattr(error.__cause__, '__traceback__', None)
  lines = traceback.extract_tb(origin or error.__traceback__)
  line = next((line for line in reversed(lines) if not line.filename.startswith(
      _LIBRARIES)), lines[-1])
  return (f'{line.filename}, line {line.lineno}: {type(error).__name__}: '
          f'{cause or line.line}')
