"""Interfaces of the process that a loop of learner or actor runs in.

A program implements what it needs; by default nothing stops a loop and nobody
listens. Standard library only.
"""

from typing import Any, Mapping


class LearnerHost:
  """The process that a learner's loop runs in."""

  def should_stop(self) -> bool:
    """Whether the loop is to end with a checkpoint; asked often."""
    return False

  def on_wait(self, cause: str = '') -> None:
    """Is called several times a second while there is no batch; may raise.

    Args:
      cause: reason for it, where there is another than slow actors.
    """

  def on_pause(self, cause: str) -> None:
    """Is called several times a second while slower agents are waited for.

    Args:
      cause: which agent is waited for, and why.
    """

  def before_batch(self) -> None:
    """Is called before each batch is read."""

  def on_row(self, row: Mapping[str, Any]) -> None:
    """Takes a row of metrics that was just written."""


class ActorHost:
  """The process that an actor's loop runs in."""

  def wait_for_learner(self) -> None:
    """Returns once the learner is there; called when environments are made.

    Where the replay has a server of its own, that is there then, too.
    """

  def poll(self, cause: str) -> None:
    """Is called over and over while the learner has no parameters yet.

    Args:
      cause: why the actor still waits.
    """

  def on_unroll(self, hop_secs: Mapping[str, float]) -> None:
    """Is called after each batch of unrolls.

    Args:
      hop_secs: seconds spent so far by kind of work; see
        `actor.Actor.stopwatch`.
    """
