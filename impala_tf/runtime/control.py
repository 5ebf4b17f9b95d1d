"""The services of a process to the loop of a learner or actor in it."""

import dataclasses
from typing import Callable, Mapping


@dataclasses.dataclass(frozen=True)
class LoopControl:
  """Callbacks by which a learner's loop stops, waits and pauses."""
  # Returns whether to end the loop with a checkpoint.
  should_stop: Callable[[], bool] = lambda: False
  # Called before the wait for each batch; may raise.
  before_batch: Callable[[], None] = lambda: None
  # Called several times a second without a batch, with the cause, which is
  # empty if actors are just slow; may raise.
  on_wait: Callable[[str], None] = lambda cause: None
  # Called likewise while a slower agent is waited for.
  on_pause: Callable[[str], None] = lambda cause: None


@dataclasses.dataclass(frozen=True)
class ActorControl:
  """The waiting and reporting of the process that runs an actor's loop."""
  # Waits for the learner, and for a replay server if any.
  wait_for_learner: Callable[[], None] = lambda: None
  # Called repeatedly, with the cause, until parameters are there; may raise.
  poll: Callable[[str], None] = lambda cause: None
  # Called after each batch of unrolls, with `Actor.stopwatch.secs`.
  on_unroll: Callable[[Mapping[str, float]], None] = lambda hop_secs: None
