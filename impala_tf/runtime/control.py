"""What the loops of learners and actors ask of the process that runs them.

Standard library only.
"""

import dataclasses
from typing import Callable, Mapping


def _nothing() -> None:
  """Does nothing."""


@dataclasses.dataclass(frozen=True)
class LoopControl:
  """Whether a learner's loop must stop, and who hears what it waits for.

  Attributes:
    should_stop: says whether to end the loop with a checkpoint; called often.
    before_batch: called before each batch is waited for; may raise.
    on_wait: called several times a second while there is no batch, with the
      cause, which is empty if actors are just slow; may raise.
    on_pause: called several times a second while the loop waits for a slower
      agent, with the cause.
  """
  should_stop: Callable[[], bool] = lambda: False
  before_batch: Callable[[], None] = _nothing
  on_wait: Callable[[str], None] = lambda cause: None
  on_pause: Callable[[str], None] = lambda cause: None


@dataclasses.dataclass(frozen=True)
class ActorControl:
  """The waiting and reporting of the process that runs an actor's loop.

  Attributes:
    wait_for_learner: waits for the learner, and for a replay server if there is
      one.
    poll: called repeatedly, with the cause, until parameters are there; may
      raise.
    on_unroll: called after each batch of unrolls, with the seconds so far by
      kind of work; see `actor.Actor.stopwatch`.
  """
  wait_for_learner: Callable[[], None] = _nothing
  poll: Callable[[str], None] = lambda cause: None
  on_unroll: Callable[[Mapping[str, float]], None] = lambda hop_secs: None
