"""The learner's loop: read a batch, update, call the callbacks."""

import itertools
import time
from typing import Callable, Generator, Iterator, Optional, Protocol, Sequence

from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces

AgreeFn = Callable[[bool, bool], tuple[bool, bool]]


def train(batches: Iterator[interfaces.Batch],
          learner: interfaces.Learner[interfaces.Batch],
          callbacks: Sequence[interfaces.Callback[interfaces.Batch]],
          is_done: Callable[[], bool]) -> bool:
  """Learns until the run is done or `batches` end.

  Callbacks are called in their order; `roles.learning` makes the list. They
  share only the `Update`.

  Batches are time-major. Returns whether the run is done, or a callback has
  ended it with StopTraining. Then the callbacks after that one are not called.
  """
  done = True
  while not is_done():
    start = time.monotonic()
    batch = next(batches, None)
    if batch is None:
      done = False
      break
    wait_secs = time.monotonic() - start
    # Updates between the parameters that acted and this one, for each unroll.
    lags = learner.num_updates.numpy() - batch.policy_version.numpy()
    metrics = learner.update(batch)
    update = interfaces.Update(
        int(learner.num_updates.numpy()), int(learner.num_frames.numpy()),
        metrics, batch, lags, wait_secs)
    try:
      for callback in callbacks:
        callback.after_update(update)
    except interfaces.StopTraining:
      break
  return done


def read(reader: interfaces.Reader[interfaces.Batch],
         control: control_lib.LoopControl,
         agree: AgreeFn = lambda has_batch, must_stop: (has_batch, must_stop)
         ) -> Generator[interfaces.Batch, None, None]:
  """Yields batches as they come, until the process is to stop.

  `agree` maps whether there is a batch, and whether to stop, to the same
  answers for all learners of an update; see `learner_group`.
  """
  batch: Optional[interfaces.Batch] = None
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
      assert batch is not None  # All learners have one.
      yield batch
      batch = None
      control.before_batch()


class Player(Protocol):
  """A player whose unrolls become the batches of the same process."""

  def lacks(self, num_batches: int) -> bool:
    """Whether it has played fewer unrolls than so many batches need."""

  def play(self) -> None:
    """Plays and sends one unroll of each environment."""


def play_then_learn(player: Player,
                    reader: interfaces.Reader[interfaces.Batch],
                    control: control_lib.LoopControl
                    ) -> Generator[interfaces.Batch, None, None]:
  """Plays each batch in the same process, and then yields it.

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
