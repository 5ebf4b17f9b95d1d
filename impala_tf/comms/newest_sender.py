"""A thread that sends the newest of what it is given."""

import threading
from typing import Callable

import numpy as np


class NewestSender:
  """A sender of snapshots in a thread of its own, which keeps nobody waiting.

  Only the newest counts: one that is still waiting when the next arrives is
  dropped.
  """

  def __init__(self, send: Callable[[int, np.ndarray], None]):
    """Starts the thread.

    Args:
      send: function of a version and its snapshot, which is called in the
        thread. After the first exception that it raises it is called no more.
    """
    self._send = send
    self._newest = None
    self._error = None
    self._wake = threading.Condition()
    threading.Thread(target=self._run, daemon=True).start()

  def send(self, version: int, snapshot: np.ndarray) -> None:
    """Hands a snapshot to the thread.

    Args:
      version: number of the snapshot.
      snapshot: array that nobody changes from now on.

    Raises:
      RuntimeError: where sending an earlier one has failed.
    """
    with self._wake:
      if self._error is not None:
        raise RuntimeError('publishing the parameters failed') from self._error
      self._newest = (version, snapshot)
      self._wake.notify()

  def _run(self):
    while True:
      with self._wake:
        self._wake.wait_for(lambda: self._newest is not None)
        newest, self._newest = self._newest, None
      try:
        self._send(*newest)
      except Exception as error:  # pylint: disable=broad-except
        with self._wake:
          self._error = error
        return
