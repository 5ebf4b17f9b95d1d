"""Datasets of Reverb tables' samples; no other module transposes unrolls."""

from typing import NamedTuple

import reverb
import tensorflow as tf

from impala_tf import types
from impala_tf.comms import unroll_filter

# Two read 30 % more unrolls in a second than one, four 40 % more.
_MAX_SAMPLERS = 4

# AutoGraph, which is not needed here, would leave files in the temporary
# directory of a process that is killed.
without_autograph = tf.autograph.experimental.do_not_convert


class Source(NamedTuple):
  """A table that supplies `num_unrolls` unrolls to each batch."""
  address: str  # 'host:port' of its server.
  table: str  # Name of the table.
  num_unrolls: int  # Number of unrolls that each batch takes from it.
  in_order: bool = True  # Exactly; else it is faster.


def samples(source: Source) -> tf.data.Dataset:
  """Makes a dataset whose elements are single samples of a table."""
  return reverb.TrajectoryDataset.from_table_signature(
      server_address=source.address,
      table=source.table,
      # Reverb's sampler wakes up every 3 s from waiting. If it waits for more
      # than one, Reverb 0.14.0 loses unrolls of that very millisecond if the
      # server is in the same process. A run in one process counts its unrolls,
      # and would wait for the lost one for ever (seen once).
      max_in_flight_samples_per_worker=1,
      # In each another unroll grows old: in all at most an eighth of a batch.
      num_workers_per_iterator=1 if source.in_order else
      max(1, min(_MAX_SAMPLERS, source.num_unrolls // 8)))


def batches(source: Source, is_taken: unroll_filter.TakesFn) -> tf.data.Dataset:
  """Makes a dataset of batches of the accepted samples, columns [size, N]."""
  dataset = samples(source).filter(
      without_autograph(lambda sample: is_taken(sample.data)))
  # Unrolls are filtered singly, for 4 microseconds a step: a refused one in a
  # batch could not be replaced. A `map` before `batch` would be fused with it
  # to one that works a batch ahead, which grows old.
  return dataset.batch(source.num_unrolls, drop_remainder=True)


def never_ahead(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Returns a dataset without autotuning, so that it does not read ahead."""
  # By default it makes `map` parallel and prefetches up to five more batches,
  # which grow old on the way (measured: lag 9.5 instead of 4).
  options = tf.data.Options()
  options.autotune.enabled = False
  return dataset.with_options(options)


def time_major(unroll: types.Unroll) -> types.Unroll:
  """Transposes fields [B, T+1, ...] to [T+1, B, ...], if they have time."""

  def transpose(tensor):
    return tf.transpose(tensor, [1, 0] + list(range(2, tensor.shape.rank)))

  return unroll._replace(
      env_outputs=tf.nest.map_structure(transpose, unroll.env_outputs),
      agent_outputs=tf.nest.map_structure(transpose, unroll.agent_outputs))
