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

  def on_wait(self) -> None:
    """Is called several times a second while there is no batch; may raise."""

  def before_batch(self) -> None:
    """Is called before each batch is read."""

  def on_row(self, row: Mapping[str, Any]) -> None:
    """Takes a row of metrics that was just written."""


class ActorHost:
  """The process that an actor's loop runs in."""

  def wait_for_learner(self) -> None:
    """Returns once the learner is there; called when environments are made."""

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
