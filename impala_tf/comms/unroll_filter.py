"""The filter that rejects unrolls unfit for learning.

An unroll of another config or size, or with NaN in it, would spoil the
parameters, so every unroll from the network is checked.
"""

import collections
import threading
import time
from typing import Callable, Counter, Sequence

from absl import logging
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.comms import packing

NOT_FINITE = 'numbers that are not finite'
OTHER_CONFIG = 'played with another config'
OTHER_AGENT = "in another agent's queue"
LATE = 'too late for their update'
# More refusals than any queue holds, for a long time, end the run.
_MAX_IN_A_ROW = 1_000
_MAX_SECS = 30.
_WARNING_INTERVAL_SECS = 60.

# Whether an unroll is taken, bool [], from its columns [N].
TakesFn = Callable[[Sequence[tf.Tensor]], tf.Tensor]


class Refusals:
  """Counts of refused unrolls by reason and sender; threads may share them."""

  def __init__(self, clock: Callable[[], float] = time.monotonic):
    """Starts without refusals; `clock` returns the time in seconds."""
    self.total = 0
    self.num_replayed = 0  # Of them, from a shared replay and not the queue.
    self._clock = clock
    self._in_a_row = 0
    self._last_batch = clock()
    self._unreported: Counter[str] = collections.Counter()
    self._next_warning = float('-inf')
    self._lock = threading.Lock()

  def add(self, sender: int, reason: str, agent: int | None = None) -> None:
    """Counts an unroll of an actor (`sender`), and warns at most once a minute.

    `agent` is that of an unroll from a shared replay, None for the queue.
    """
    name = f'actor {sender}'
    if agent is not None:
      name += f' of agent {agent}'
    with self._lock:
      self.total += 1
      self.num_replayed += agent is not None
      self._in_a_row += 1
      self._unreported[f'{reason}, from {name}'] += 1
      now = self._clock()
      if now >= self._next_warning:
        self._next_warning = now + _WARNING_INTERVAL_SECS
        logging.warning('Unrolls refused: %s; %d in all', self._pop_counts(),
                        self.total)

  def _pop_counts(self) -> str:
    counts = '; '.join(f'{count} ({what})' for what, count in
                       self._unreported.most_common(10))
    self._unreported.clear()
    return counts

  def batch_came(self) -> None:
    """Records that a batch of good unrolls came."""
    self._in_a_row = 0
    self._last_batch = self._clock()

  def check(self) -> None:
    """Raises UserError if 1,000 unrolls in 30 s or more were all refused."""
    secs = self._clock() - self._last_batch
    if self._in_a_row < _MAX_IN_A_ROW or secs < _MAX_SECS:
      return
    with self._lock:
      raise config_lib.UserError(
          f'{self._in_a_row} unrolls in a row were refused, for {secs:.0f} s: '
          f'{self._pop_counts() or "see the warnings"}; look at the '
          'environment, and start actors with the config of their learner')


def refusing(packed: packing.Packing, fingerprint: int,
             refusals: Refusals | None, agent: int | None = None,
             is_shared: bool = False, must_be_finite: bool = True) -> TakesFn:
  """Makes a predicate that accepts unrolls of a config and, if given, an agent.

  `refusals` counts the others, if given. `must_be_finite` refuses NaN and
  infinity. `is_shared` is whether several agents write to the table.
  """

  def note(sender, of_agent, is_known, is_own):
    reason = OTHER_CONFIG
    if is_known:
      reason = NOT_FINITE if is_own else OTHER_AGENT
    refusals.add(int(sender), reason, *([int(of_agent)] if is_shared else []))
    return False

  def is_taken(columns):
    fits = tf.reduce_all(tf.equal([tf.size(column) for column in columns],
                                  packed.sizes))
    stamp = packed.stamp(columns)
    is_finite = not must_be_finite or tf.reduce_all([
        tf.reduce_all(tf.math.is_finite(column)) for column in columns
        if column.dtype.is_floating])
    is_known = tf.logical_and(fits, tf.equal(stamp.fingerprint, fingerprint))
    is_own = agent is None or tf.equal(stamp.agent, agent)
    is_good = tf.reduce_all([is_finite, is_known, is_own])
    if refusals is None:
      return is_good
    # Python is called for refused unrolls only.
    return tf.cond(
        is_good, lambda: True,
        lambda: tf.ensure_shape(tf.numpy_function(
            note, [stamp.sender, stamp.agent, is_known, is_own], tf.bool), []))

  return is_taken


def of_one_version(packed: packing.Packing, is_known: TakesFn,
                   first_version: int, num_unrolls: int,
                   refusals: Refusals | None) -> TakesFn:
  """Makes a predicate that accepts `num_unrolls` of each version in turn.

  It is the barrier of batched A2C: an update's unrolls were all played with the
  very parameters that it changes. If an actor dies after it has sent some, its
  successor plays them again, and the surplus is refused. `is_known` filters
  unrolls first; `refusals`, if given, counts the others.
  """
  num_taken = 0

  def is_in_turn(version, sender):
    nonlocal num_taken
    is_taken = version == first_version + num_taken // num_unrolls
    num_taken += int(is_taken)
    if not is_taken and refusals is not None:
      refusals.add(int(sender), LATE)
    return bool(is_taken)

  def is_taken(columns):

    def ask():
      unroll = packed.unpack([column[tf.newaxis] for column in columns])
      return tf.ensure_shape(tf.numpy_function(
          is_in_turn, [unroll.policy_version[0], packed.stamp(columns).sender],
          tf.bool), [])

    return tf.cond(is_known(columns), ask, lambda: False)

  return is_taken
