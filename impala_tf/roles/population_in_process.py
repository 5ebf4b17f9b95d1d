"""A population in turns, within one process: the same numbers every time.

Members of `./launch/population.sh` run at once and compare themselves with the
newest records of the others, which depend on chance. Here each trains until its
next decision, while the others rest.
"""

from typing import Any, Mapping

from impala_tf import config as config_lib
from impala_tf.pbt import populations
from impala_tf.roles import in_process
from impala_tf.runs import metrics
from impala_tf.runtime import host as host_lib


class _Turn(host_lib.LearnerHost):
  """A host that stops a member after its next decision.

  Attributes:
    frames: environment frames that the member has learned from.
  """

  def __init__(self, host: host_lib.LearnerHost, run_dir: str, frames: int):
    self.frames = frames
    self._host = host
    self._run_dir = run_dir
    self._before = populations.read_published(run_dir)
    self.on_wait = host.on_wait
    self.before_batch = host.before_batch

  def should_stop(self) -> bool:
    return self._host.should_stop() or (
        populations.read_published(self._run_dir) != self._before)

  def on_row(self, row: Mapping[str, Any]) -> None:
    self.frames = row['frames']
    self._host.on_row(row)


def run(members: Mapping[str, config_lib.Config],
        host: host_lib.LearnerHost) -> None:
  """Trains a population, those with the fewest frames first.

  The same seeds give the same numbers, however often it is stopped between two
  turns. `members` has the config of each member by the existing directory of
  its run, whose checkpoints are resumed from.
  """
  frames = {run_dir: (metrics.read_rows(run_dir) or [{'frames': 0}])[-1][
      'frames'] for run_dir in members}
  unfinished = list(members)  # In order: of equal frames the first one plays.
  while unfinished and not host.should_stop():
    run_dir = min(unfinished, key=frames.get)
    turn = _Turn(host, run_dir, frames[run_dir])
    if in_process.run(members[run_dir], run_dir, turn):
      unfinished.remove(run_dir)
    frames[run_dir] = turn.frames
