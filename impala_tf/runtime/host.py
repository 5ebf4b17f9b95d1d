"""Interfaces of the process that runs a learner's or actor's loop.

Programs override what they need. By default nothing stops a loop and all calls
are ignored. Standard library only.
"""

from typing import Any, Mapping


class LearnerHost:
  """The process that runs a learner's loop."""

  def should_stop(self) -> bool:
    """Returns whether the loop should end with a checkpoint; called often."""
    return False

  def on_wait(self, cause: str = '') -> None:
    """Is called several times a second while there is no batch; may raise.

    The cause is empty if actors are just slow.
    """

  def on_pause(self, cause: str) -> None:
    """Is called several times a second while waiting for a slower agent."""

  def before_batch(self) -> None:
    """Is called before each batch is read."""

  def on_row(self, row: Mapping[str, Any]) -> None:
    """Receives each row of metrics after it was written."""


class ActorHost:
  """The process that runs an actor's loop."""

  def wait_for_learner(self) -> None:
    """Waits for the learner, and for a replay server if there is one."""

  def poll(self, cause: str) -> None:
    """Is called repeatedly, with the cause, until parameters are there."""

  def on_unroll(self, hop_secs: Mapping[str, float]) -> None:
    """Is called after each batch of unrolls.

    `hop_secs` are seconds so far by kind of work; see `actor.Actor.stopwatch`.
    """
