"""Chains of unrolls: each is learned from once, after what came before it."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.comms import packing
from impala_tf.replay import episodes
from tests.fixtures import unrolls

T = unrolls.T
FIRST, MID = 0, 1


def _unroll(row, *firsts):
  """Makes an unroll whose step types are FIRST at these steps."""
  unroll = unrolls.packed(unrolls.numbered(0))._replace(row=row)
  step_type = unroll.unroll.env_outputs.step_type
  step_type[:] = MID
  step_type[list(firsts)] = FIRST
  return unroll


# `ends`: whether an episode ends in each unroll; `rows`: its environment.
@pytest.mark.parametrize('max_unrolls, ends, rows, expected', [
    # An episode, after the unroll that it begins in.
    (9, [0, 0, 1, 1, 0, 1], [0] * 6, [[0], [0, 1, 2], [2, 3], [3, 4, 5]]),
    # Longer episodes are cut.
    (2, [0, 0, 0, 0, 0, 1], [0] * 6, [[0], [0, 1, 2], [2, 3, 4], [4, 5]]),
    # Each environment has separate chains.
    (9, [0, 0, 0, 0, 1, 1], [0, 1] * 3, [[0], [1], [0, 2, 4], [1, 3, 5]]),
    # Environment 1 sends five while environment 0 sends none: what comes too
    # late to be kept begins a chain anew.
    (1, [0] * 8, [0, 1, 1, 1, 1, 1, 0, 0],
     [[0], [1], [1, 2], [2, 3], [3, 4], [4, 5], [6, 7]]),
    # Environment 0 sends two of five: its chains are shorter, and not lost.
    (4, [0] * 15, [0, 1, 1, 0, 1] * 3,
     [[0], [1], [1, 2, 4, 6, 7], [0, 3, 5, 8], [7, 9, 11, 12, 14]]),
    # It sends one of six: a chain is without what is too old to be kept.
    (4, [0] * 13, [0, 1, 1, 1, 1, 1] * 2 + [0],
     [[0], [1], [1, 2, 3, 4, 5], [5, 7, 8, 9, 10], [6, 12]])])
def test_chains_are_episodes_of_an_environment(
    max_unrolls, ends, rows, expected):
  made = episodes.Chains(max_unrolls, num_envs=max(rows) + 1)
  found = []
  for number, (end, row) in enumerate(zip(ends, rows)):
    places = made.add(_unroll(row, *([2] if end else [])))
    if places is not None:
      assert min(places) >= -made.num_kept
      found.append([number + 1 + place for place in places])
  assert found == expected


@pytest.mark.parametrize('first, is_end', [(0, False), (1, True), (T, True)])
def test_the_first_step_was_the_end_of_the_unroll_before(first, is_end):
  chains = episodes.Chains(9, 1)
  chains.add(_unroll(0, 0))
  assert (chains.add(_unroll(0, first)) is not None) == is_end


PACKED = packing.Packing(unrolls.spec())


def _columns(numbers):
  """Makes the columns [n, N] of a chain of numbered unrolls."""
  packed = [unrolls.columns(unrolls.numbered(n)) for n in numbers]
  return tuple(np.stack(columns) for columns in zip(*packed))


def _read(chains, num_unrolls, num_batches, recompute=None):
  """Reads batches of chains, which are lists of numbers."""
  dataset = [tuple(map(tf.constant, _columns(chain))) for chain in chains]
  reader = episodes.read(dataset, num_unrolls, PACKED, recompute)
  return [next(reader) for _ in range(num_batches)]


def test_each_batch_has_the_next_unroll_of_each_episode():
  batches = _read([[0, 1, 2, 3], [4, 5], [6, 7, 8], [9, 10], [11, 12]], 2, 4)
  assert [batch.policy_version.numpy().tolist() for batch in batches] == [
      [1, 5], [2, 7], [3, 8], [10, 12]]
  for batch in batches:
    for i, number in enumerate(batch.policy_version.numpy()):
      unrolls.assert_equal(
          tf.nest.map_structure(lambda t, i=i: t[i].numpy(), batch),
          unrolls.numbered(number))


def test_memory_is_carried_from_unroll_to_unroll_and_begins_as_stored():

  def recompute(unroll):
    # Counts unrolls, and remembers in which one it began to.
    vector, counts = unroll.core_state
    return vector, counts + 1000

  batches = _read([[0, 1, 2, 3], [4, 5], [6, 7, 8], [9, 10], [11, 12]], 2, 4,
                  recompute)
  stored = [unrolls.numbered(n).core_state for n in range(12)]
  for batch, origins in zip(batches, (
      [(0, 1), (4, 1)], [(0, 2), (6, 1)], [(0, 3), (6, 2)],
      [(9, 1), (11, 1)])):
    vector, counts = batch.core_state
    np.testing.assert_array_equal(vector, [stored[n][0] for n, _ in origins])
    np.testing.assert_array_equal(
        counts, [stored[n][1] + 1000 * times for n, times in origins])


def test_a_chain_of_one_unroll_is_learned_from_at_once():
  assert [batch.policy_version.numpy().tolist() for batch in _read(
      [[0], [1, 2], [3], [4, 5]], 2, 2)] == [[0, 2], [3, 5]]


def test_one_pass_a_batch_sees_the_unrolls_before():
  seen = []

  def recompute(unroll):
    seen.append(unroll.policy_version.numpy().tolist())
    return unroll.core_state

  _read([[0, 1, 2], [3, 4], [5, 6], [7, 8], [8, 9]], 2, 3, recompute)
  assert seen == [[0, 3], [1, 5], [7, 8]]
