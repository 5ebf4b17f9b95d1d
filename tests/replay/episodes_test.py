"""Chains of unrolls: each is learned from once, after what came before it."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.comms import packing
from impala_tf.replay import episodes
from tests.fixtures import unrolls

T = unrolls.T
FIRST, MID = 0, 1


def _step_type(*firsts):
  """Makes step types [T+1] that are FIRST at these steps."""
  step_type = np.full([T + 1], MID, np.uint8)
  step_type[list(firsts)] = FIRST
  return step_type


def _chained(max_unrolls, *ends, num_envs=1, rows=None):
  """Adds numbered unrolls; returns chains of their numbers.

  Args:
    max_unrolls: see `episodes.Chains`.
    *ends: whether each unroll has an end of an episode.
    num_envs: see `episodes.Chains`.
    rows: environment of each unroll; all of one by default.
  """
  made = episodes.Chains(max_unrolls, num_envs)
  found = []
  for number, (end, row) in enumerate(zip(ends, rows or [0] * len(ends))):
    places = made.add(row, _step_type(*([2] if end else [])))
    if places is not None:
      assert min(places) >= -made.num_kept
      found.append([number + 1 + place for place in places])
  return found


def test_chain_is_an_episode_after_the_unroll_that_it_begins_in():
  assert _chained(9, 0, 0, 1, 1, 0, 1) == [
      [0], [0, 1, 2], [2, 3], [3, 4, 5]]


def test_longer_episodes_are_cut():
  assert _chained(2, 0, 0, 0, 0, 0, 1) == [
      [0], [0, 1, 2], [2, 3, 4], [4, 5]]


def test_environments_have_chains_of_their_own():
  assert _chained(9, 0, 0, 0, 0, 1, 1, num_envs=2, rows=[0, 1] * 3) == [
      [0], [1], [0, 2, 4], [1, 3, 5]]


def test_what_comes_too_late_to_be_kept_begins_a_chain_anew():
  # Environment 1 sends five while environment 0 sends none.
  chains = _chained(1, *[0] * 8, num_envs=2, rows=[0, 1, 1, 1, 1, 1, 0, 0])
  assert chains == [[0], [1], [1, 2], [2, 3], [3, 4], [4, 5], [6, 7]]


@pytest.mark.parametrize('first, is_end', [
    (0, False), (1, True), (T, True)])
def test_the_first_step_was_the_end_of_the_unroll_before(first, is_end):
  chains = episodes.Chains(9, 1)
  chains.add(0, _step_type(0))
  assert (chains.add(0, _step_type(first)) is not None) == is_end


PACKED = packing.Packing(unrolls.spec())


def _columns(numbers):
  """Makes the columns [n, N] of a chain of numbered unrolls."""
  stamp = packing.Stamp(np.int64(0), np.int64(0))
  packed = [PACKED.pack(unrolls.numbered(n), stamp) for n in numbers]
  return tuple(np.stack(columns) for columns in zip(*packed))


def _read(chains, num_unrolls, num_batches, recompute=None):
  """Reads batches of chains, which are lists of numbers."""
  dataset = [tuple(map(tf.constant, _columns(chain))) for chain in chains]
  reader = iter(episodes.EpisodeReader(
      dataset, num_unrolls, PACKED, recompute))
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
  batches = _read([[0], [1, 2], [3], [4, 5]], 2, 2)
  assert [batch.policy_version.numpy().tolist() for batch in batches] == [
      [0, 2], [3, 5]]


def test_one_pass_a_batch_sees_the_unrolls_before():
  seen = []

  def recompute(unroll):
    seen.append(unroll.policy_version.numpy().tolist())
    return unroll.core_state

  _read([[0, 1, 2], [3, 4], [5, 6], [7, 8], [8, 9]], 2, 3, recompute)
  assert seen == [[0, 3], [1, 5], [7, 8]]
