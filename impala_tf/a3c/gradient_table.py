"""The Reverb table to which workers of other machines send their gradients.

Workers fetch parameters from the learner's table, as actors do, and put the
gradient of each segment into a short queue. The learner applies one after
another (`Intake`): a parameter server, as A3C on several machines has in table
1 of Espeholt et al. 2018 (arXiv:1802.01561).
"""

import json
import threading
from typing import Callable, Iterator, Optional

import numpy as np
import reverb
import tensorflow as tf

from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.comms import reverb_calls
from impala_tf.core import weights

_TABLE = 'gradients'
# A gradient that waits grows old; a full queue makes workers wait instead.
_CAPACITY = 8
# The record that the learner makes of a text must fit, too. It has the learning
# rate and the lag besides.
_TEXT_BYTES = store_lib.RECORD_BYTES - 128


def make_table(num_parameters: int) -> reverb.Table:
  """Makes the queue: first in, first out, each contribution read once."""
  return reverb.Table.queue(_TABLE, _CAPACITY, signature=(
      tf.TensorSpec([num_parameters], tf.float32, 'gradient'),
      # A writer's texts must be of one length.
      tf.TensorSpec([_TEXT_BYTES], tf.uint8, 'json')))


class TableLink:
  """A link through the tables of a learner on another machine."""

  def __init__(self, address: str, fetcher: weights.Fetcher):
    """Connects to the server; `fetcher` must have parameters already."""
    self._fetcher = fetcher
    self._client = reverb.Client(address)
    self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)

  def pull(self) -> store_lib.Counts:
    """Fetches parameters; returns the counts behind them.

    Raises ConnectionError if the server does not answer, or is of another run.
    """
    version = self._fetcher.fetch()
    assert version is not None  # See `__init__`.
    # Nobody here has a target network that could be replaced.
    return store_lib.Counts(self._fetcher.frames, version, num_syncs=0)

  def push(self, contribution: links.Contribution) -> None:
    """Waits until the queue has taken a contribution.

    Raises ConnectionError without a server, ValueError for too many metrics.
    """
    facts = contribution._asdict()
    gradient = facts.pop('gradient')
    text = store_lib.encode(facts, _TEXT_BYTES)
    reverb_calls.insert(
        self._client, self._writer, _TABLE,
        [gradient, np.frombuffer(text.ljust(_TEXT_BYTES), np.uint8)])


def contributions(address: str) -> Iterator[links.Contribution]:
  """Yields contributions from the queue of this process's server."""
  dataset = reverb.TrajectoryDataset.from_table_signature(
      server_address=address, table=_TABLE,
      # Read ahead, it would grow old; and see `sampling.samples`.
      max_in_flight_samples_per_worker=1, num_workers_per_iterator=1)
  for sample in dataset.as_numpy_iterator():
    gradient, text = sample.data
    yield links.Contribution(gradient, **json.loads(bytes(text)))


class Intake:
  """A thread that applies contributions from the table, one after another."""

  def __init__(self, address: str, store: store_lib.Store,
               apply: Callable[[links.Contribution], None],
               publisher: weights.Publisher, total_frames: int):
    """Starts the thread, with the address of this process's server.

    `store` must be opened for this thread alone: a lock on the same file would
    not keep out other threads of the process.
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
      for contribution in contributions(self._address):
        if self._store.counts.num_frames >= self._total_frames:
          return  # The learner is about to end.
        self._apply(contribution)
        self._publisher.publish(self._store.counts.num_updates)
    except Exception as error:  # pylint: disable=broad-except
      self._error = error
