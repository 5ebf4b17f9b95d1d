"""Priorities of replayed unrolls, and the weights that correct for them.

Source: Schaul et al. 2016, "Prioritized Experience Replay", arXiv:1511.05952;
the supplement of Schmitt et al. 2020 (LASER), section 1.2, compares it with
uniform sampling. P(i) is proportional to p_i^alpha, with the critic's loss as
p_i, and updates are weighted by 1 / P(i)^beta.
"""

import contextlib
import queue
import threading

from absl import logging
import numpy as np
import reverb
import tensorflow as tf

from impala_tf.runtime import interfaces

# The metric of each unroll that decides about its priority.
METRIC = 'loss/baseline'
# Priorities are losses in units of their mean, so that new unrolls, of unknown
# loss, count as average ones. This is added: a part of all sampling is uniform,
# since an unroll without a loss may have one again later.
_UNIFORM = 0.01
_DECAY = 0.99


def weights(probabilities: tf.Tensor, table_sizes: tf.Tensor,
            correction: float) -> tf.Tensor:
  """Computes importance weights that correct for prioritised sampling.

  They are 1 / (N P)^beta, divided by the batch's largest, so that no update
  grows (Schaul et al. 2016, section 3.4). P and the table's size N at that time
  are [B]; `correction` is beta. Returns float32 [B], at most 1.
  """
  factors = (tf.cast(probabilities, tf.float64)
             * tf.cast(table_sizes, tf.float64))**-correction
  return tf.cast(factors / tf.reduce_max(factors), tf.float32)


class Prioritiser:
  """A callback that sets the replay's priorities by the critic's losses.

  A thread sends them, since that call has no deadline: an unresponsive server
  delays only new priorities.
  """

  def __init__(self, address: str, table: str):
    """Connects to a replay; the learner must return `METRIC` of each unroll."""
    self._client = reverb.Client(address)
    self._table = table
    self._mean: float | None = None
    self._unsent: queue.Queue[dict[int, float]] = queue.Queue(maxsize=1)
    threading.Thread(target=self._send, daemon=True).start()

  def after_update(self, update: interfaces.Update) -> None:
    origin = update.batch.origin
    keys = origin.keys.numpy()[origin.is_replayed.numpy()]
    # Replayed ones are the last of a batch.
    losses = update.metrics.pop(f'unroll/{METRIC}')[-len(keys):]
    if np.all(np.isfinite(losses)):
      losses = losses.astype(np.float64)
      mean = float(losses.mean())
      self._mean = mean if self._mean is None else (
          _DECAY * self._mean + (1 - _DECAY) * mean)
      unit = max(self._mean, float(np.finfo(np.float32).tiny))
      priorities = losses / unit + _UNIFORM
      with contextlib.suppress(queue.Full):  # Then they keep those they have.
        self._unsent.put_nowait(dict(zip(keys.tolist(), priorities)))

  def _send(self):
    while True:
      priorities = self._unsent.get()
      try:
        self._client.mutate_priorities(self._table, updates=priorities)
      except Exception as error:  # Reverb raises errors of several kinds.
        logging.warning('The replay took no priorities: %s', error)
