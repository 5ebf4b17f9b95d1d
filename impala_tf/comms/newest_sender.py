"""A thread that sends only the newest snapshot."""

import threading
from typing import Callable, Optional, Tuple

import numpy as np

from impala_tf.comms import parameter_memory


class NewestSender:
  """A sender of snapshots in a separate thread, for which nobody waits.

  A snapshot that is still waiting when the next arrives is dropped.
  """

  def __init__(self, write: Callable[[parameter_memory.Stamp, np.ndarray],
                                     None]):
    """Starts the thread, which calls `write` until it raises an exception."""
    self._write = write
    self._newest: Optional[Tuple[parameter_memory.Stamp, np.ndarray]] = None
    self._error: Optional[Exception] = None
    self._wake = threading.Condition()
    threading.Thread(target=self._run, daemon=True).start()

  def write(self, stamp: parameter_memory.Stamp, snapshot: np.ndarray) -> None:
    """Hands over a snapshot; RuntimeError if an earlier one was not written."""
    with self._wake:
      if self._error is not None:
        raise RuntimeError('publishing the parameters failed') from self._error
      self._newest = (stamp, snapshot)
      self._wake.notify()

  def _run(self):
    while True:
      with self._wake:
        self._wake.wait_for(lambda: self._newest is not None)
        newest, self._newest = self._newest, None
      try:
        self._write(*newest)
      except Exception as error:  # pylint: disable=broad-except
        with self._wake:
          self._error = error
        return
