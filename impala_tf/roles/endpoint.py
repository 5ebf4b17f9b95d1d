"""The run directory and port of a learner, and the replay that it shares."""

from typing import NamedTuple


class Sharing(NamedTuple):
  """The place of an agent that shares a replay; by default it shares none."""
  # 'host:port' of the replay; None if it is in the learner's own server.
  replay_address: str | None = None
  agent: int = 0  # Number of the agent among all that share it.

  def flags(self) -> list[str]:
    """Returns the flags that learners and actors get for it."""
    if self.replay_address is None:
      return []
    return [f'--replay_address={self.replay_address}', f'--agent={self.agent}']


NOT_SHARED = Sharing()


class Endpoint(NamedTuple):
  """A learner's directory and port."""
  # Directory of the run, which exists; checkpoints in it are resumed from.
  run_dir: str
  port: int | None = None  # Port of the Reverb server; None for a free one.
  sharing: Sharing = NOT_SHARED  # Place among agents that share a replay.
