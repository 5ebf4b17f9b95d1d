"""The place of a process in a run, and callbacks for the loop in it."""

import dataclasses
from typing import Callable, Mapping, NamedTuple


class Sharing(NamedTuple):
  """A shared replay's address and the agent's number; by default not shared."""
  # 'host:port' of the replay; None if it is in the learner's own server.
  replay_address: str | None = None
  agent: int = 0  # Number of the agent among all that share it.

  def flags(self) -> list[str]:
    """Returns flags for learners and actors; [] without a shared replay."""
    if self.replay_address is None:
      return []
    return [f'--replay_address={self.replay_address}', f'--agent={self.agent}']


NOT_SHARED = Sharing()


class Endpoint(NamedTuple):
  """A learner's run directory, port and shared replay."""
  # Directory of the run, which exists; checkpoints in it are resumed from.
  run_dir: str
  port: int | None = None  # Port of the Reverb server; None for a free one.
  sharing: Sharing = NOT_SHARED  # Place among agents that share a replay.


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
  """Callbacks by which an actor's loop waits and reports."""
  # Waits for the learner, and for a replay server if any.
  wait_for_learner: Callable[[], None] = lambda: None
  # Called repeatedly, with the cause, until parameters are there; may raise.
  poll: Callable[[str], None] = lambda cause: None
  # Called after each batch of unrolls, with `Actor.stopwatch.secs`.
  on_unroll: Callable[[Mapping[str, float]], None] = lambda hop_secs: None
