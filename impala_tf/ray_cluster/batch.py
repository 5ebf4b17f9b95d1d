"""Batches of programs on a Ray cluster."""

import pathlib
from typing import Mapping, Sequence

from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import program as ray_program
from impala_tf.runtime import batch
from impala_tf.runtime import waiting

_POLL_SECS = 0.5


def make_batch(num_jobs: int, log_dir: str, environment: Mapping[str, str],
               needs: ray_connection.Resources, needed: Sequence[str],
               wait_secs: float) -> batch.Batch:
  """Makes a batch on a cluster; if this process dies, its programs are killed.

  Each program writes to a local file, `log_dir`/NAME.log, and needs resources
  and paths (`needed`) on its node. The method `run` raises PeerMissing if it
  waits for room for `wait_secs` while none of the programs runs.
  """
  room = waiting.Waiting(
      'room on the cluster', wait_secs, lambda line: print(line, flush=True))
  room.restart()  # Says nothing at first.

  def wait_for_room(is_any_running):
    if is_any_running:
      room.restart()
    else:
      room.poll()

  return batch.Batch(
      num_jobs, lambda name: ray_program.RayProgram(
          name, pathlib.Path(log_dir), needs, environment, needed),
      _POLL_SECS, wait_for_room)
