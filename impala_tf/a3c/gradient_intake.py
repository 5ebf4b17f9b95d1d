"""The learner's intake of gradients from workers on other machines.

A thread beside the loop of `parameter_server`: it changes the shared parameters
as the workers of this machine do, whose records the loop reads.
"""

import threading
from typing import Callable, Optional

from impala_tf.a3c import gradient_table
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.core import weights


class Intake:
  """A thread that applies contributions from the table, one after another."""

  def __init__(self, address: str, store: store_lib.Store,
               apply: Callable[[links.Contribution], None],
               publisher: weights.Publisher, total_frames: int):
    """Starts the thread.

    Args:
      address: 'host:port' of this process's server.
      store: shared parameters, opened for this thread alone: a lock on the
        same file would not keep out other threads of the process.
      apply: changes the parameters by a contribution.
      publisher: publishes them after each contribution.
      total_frames: environment frames after which no more are applied.
    """
    self._address = address
    self._store = store
    self._apply = apply
    self._publisher = publisher
    self._total_frames = total_frames
    self._error: Optional[Exception] = None
    self._thread = threading.Thread(target=self._run, daemon=True)
    self._thread.start()

  def check(self) -> None:
    """Raises RuntimeError if the thread has failed."""
    if self._error is not None:
      raise RuntimeError('applying gradients failed') from self._error

  def _run(self) -> None:
    try:
      for contribution in gradient_table.contributions(self._address):
        if self._store.counts.num_frames >= self._total_frames:
          return  # The learner is about to end.
        self._apply(contribution)
        self._publisher.publish(self._store.counts.num_updates)
    except Exception as error:  # pylint: disable=broad-except
      self._error = error
