"""The services of a process to the loop of a learner or actor in it.

Standard library only.
"""

import dataclasses
from typing import Callable, Mapping


@dataclasses.dataclass(frozen=True)
class LoopControl:
  """The stopping and waiting of a learner's loop.

  Attributes:
    should_stop: returns whether to end the loop with a checkpoint.
    before_batch: called before the wait for each batch; may raise.
    on_wait: called several times a second without a batch, with the cause,
      which is empty if actors are just slow; may raise.
    on_pause: called likewise, with the cause, while a slower agent is waited
      for.
  """
  should_stop: Callable[[], bool] = lambda: False
  before_batch: Callable[[], None] = lambda: None
  on_wait: Callable[[str], None] = lambda cause: None
  on_pause: Callable[[str], None] = lambda cause: None


@dataclasses.dataclass(frozen=True)
class ActorControl:
  """The waiting and reporting of the process that runs an actor's loop.

  Attributes:
    wait_for_learner: waits for the learner, and for a replay server if any.
    poll: called repeatedly, with the cause, until parameters are there; may
      raise.
    on_unroll: called after each batch of unrolls, with `Actor.stopwatch.secs`.
  """
  wait_for_learner: Callable[[], None] = lambda: None
  poll: Callable[[str], None] = lambda cause: None
  on_unroll: Callable[[Mapping[str, float]], None] = lambda hop_secs: None
