"""The learner's loop: read a batch, update, call the callbacks."""

import contextlib
import dataclasses
import itertools
import time
from typing import Any, Callable, Generator, Iterator, Sequence

from impala_tf.comms import unroll_filter
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces


def train(batches: Iterator[Any], learner: interfaces.Learner,
          callbacks: Sequence[interfaces.Callback],
          is_done: Callable[[], bool],
          updating: Callable[[], contextlib.AbstractContextManager] =
          contextlib.nullcontext) -> bool:
  """Makes updates and calls callbacks until the run is done or `batches` end.

  Callbacks are called in their order (`roles` make the list), and
  share only the `Update`. Batches are time-major. Returns whether the run is
  done, or a callback has ended it with StopTraining; later ones are skipped.
  Each update is made within a context of `updating`.
  """
  while not is_done():
    start = time.monotonic()
    batch = next(batches, None)
    if batch is None:
      return False
    wait_secs = time.monotonic() - start
    # Updates between the parameters that acted and this one, for each unroll.
    lags = learner.num_updates.numpy() - batch.policy_version.numpy()
    with updating():
      metrics = learner.update(batch)
    update = interfaces.Update(
        int(learner.num_updates.numpy()), int(learner.num_frames.numpy()),
        metrics, batch, lags, wait_secs)
    try:
      for callback in callbacks:
        callback.after_update(update)
    except interfaces.StopTraining:
      return True
  return True


def read(reader: interfaces.Reader, control: control_lib.LoopControl,
         agree: Callable[[bool, bool], tuple[bool, bool]] =
         lambda has_batch, must_stop: (has_batch, must_stop)
         ) -> Generator[Any, None, None]:
  """Yields batches of `reader` as they arrive, until the process must stop.

  `agree` maps whether there is a batch, and whether to stop, to the same
  answers for all learners of an update; see `learner_group`.
  """
  batch = None
  control.before_batch()
  while True:
    if batch is not None:  # Waiting for other learners counts, too.
      control.on_wait('')
    elif not control.should_stop():
      batch = reader.poll(control)
    is_ready, is_ending = agree(batch is not None, control.should_stop())
    if is_ending:
      return
    if is_ready:
      yield batch
      batch = None
      control.before_batch()


@dataclasses.dataclass
class Player:
  """A wrapper of an actor whose unrolls the same process learns from."""
  actor: Any  # An `actor.Actor`, or another with `run_unroll`.
  num_envs: int
  num_fresh: int  # New unrolls of each batch.
  refusals: unroll_filter.Refusals
  before_unroll: Callable[[], None]  # Called before each unroll.
  num_played: int = 0

  def lacks(self, num_batches: int) -> bool:
    """Returns whether too few unrolls were played for `num_batches` batches."""
    # Refused unrolls of other agents are not played again here.
    num_refused = self.refusals.total - self.refusals.num_replayed
    return self.num_played < num_batches * self.num_fresh + num_refused

  def play(self) -> None:
    """Plays and sends an unroll of each environment."""
    self.before_unroll()
    self.actor.run_unroll()
    self.num_played += self.num_envs


def play_then_learn(player: Player, reader: interfaces.Reader,
                    control: control_lib.LoopControl
                    ) -> Generator[Any, None, None]:
  """Plays the unrolls of each batch in this process, then yields the batch.

  Batches end if the process is to stop. If unrolls were rejected, more are
  played until the batch is full.
  """
  for num_batches in itertools.count(1):
    control.before_batch()
    batch = None
    while batch is None:
      while player.lacks(num_batches):
        if control.should_stop():
          return
        player.play()
      if control.should_stop():
        return
      batch = reader.poll(control)
    yield batch
