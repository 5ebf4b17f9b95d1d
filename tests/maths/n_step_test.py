"""Targets of returns and action values, by worked examples and their sums.

More examples are in `tests/algorithms/async_q_test.py`.
"""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import n_step

T, B = 7, 4
# A worked example, exact in float32: discounts of 1/2.
REWARDS = np.float32([[1], [0], [2], [0], [1]])
DISCOUNTS = np.full([5, 1], 0.5, np.float32)
BOOTSTRAP = np.float32([4])
# Q(x_1, .) to Q(x_5, .) of the target network.
NEXT_ACTION_VALUES = np.float32(
    [[[2, 0, 1]], [[0, 4, 3]], [[6, 1, 2]], [[5, 8, 4]], [[3, 4, 1]]])
NEXT_ACTIONS = np.int32([[0], [0], [2], [2], [2]])
COUNTS = np.ones([5, 1], np.float32)
VALUES = np.zeros([5, 1], np.float32)
TARGETS = {
    'n_step': lambda rewards, discounts: n_step.n_step_targets(
        rewards, discounts, BOOTSTRAP, COUNTS, VALUES),
    'one_step': lambda rewards, discounts: n_step.one_step_targets(
        rewards, discounts, NEXT_ACTION_VALUES.max(axis=-1), COUNTS),
    'sarsa': lambda rewards, discounts: n_step.one_step_targets(
        rewards, discounts,
        n_step.values_of_actions(NEXT_ACTION_VALUES, NEXT_ACTIONS), COUNTS)}


def test_returns_before_a_time_limit_bootstrap_from_the_value_there():
  # Numbers behind the time limit, even NaN, may change nothing.
  rewards, values = np.full([2, 5, 1], np.nan, np.float32)
  rewards[:3, 0], values[:3, 0] = (1, 0, np.nan), (1, 1, 4)
  mask = np.float32([[1], [1], [0], [1], [1]])
  targets = n_step.n_step_targets(
      rewards, DISCOUNTS, BOOTSTRAP, mask, values)[:3]
  np.testing.assert_array_equal(targets, [[2], [2], [4]])
  np.testing.assert_array_equal(
      mask[:3] * (targets - values[:3]), [[1], [1], [0]])


def test_n_step_targets_are_discounted_sums_between_ends():
  rng = np.random.default_rng(0)
  rewards, values = rng.normal(size=[2, T, B])
  discounts = np.where(rng.random([T, B]) < .2, 0, rng.uniform(.5, 1, [T, B]))
  mask, bootstrap = rng.random([T, B]) < .8, rng.normal(size=[B])
  expected = np.zeros([T, B])
  for start, b in np.ndindex(T, B):
    weight, t = 1., start
    while t < T and mask[t, b]:
      expected[start, b] += weight * rewards[t, b]
      weight *= discounts[t, b]
      t += 1
    expected[start, b] += weight * (bootstrap[b] if t == T else values[t, b])
  assert not mask.all() and not discounts.all()
  np.testing.assert_allclose(
      n_step.n_step_targets(rewards, discounts, bootstrap, mask, values),
      expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('name', TARGETS)
def test_no_gradient_flows_through_targets(name):
  rewards = tf.constant(REWARDS)
  with tf.GradientTape() as tape:
    tape.watch(rewards)
    targets = TARGETS[name](rewards, DISCOUNTS)
  assert tape.gradient(targets, rewards) is None


@pytest.mark.parametrize('call', [
    lambda: TARGETS['n_step'](REWARDS, DISCOUNTS[1:]),
    lambda: n_step.n_step_targets(REWARDS, DISCOUNTS, 4., COUNTS, VALUES),
    lambda: n_step.n_step_targets(
        REWARDS, DISCOUNTS, BOOTSTRAP, [[1.]], REWARDS),
    lambda: n_step.one_step_targets(
        REWARDS, DISCOUNTS, NEXT_ACTION_VALUES, COUNTS),
    lambda: n_step.one_step_targets(REWARDS, DISCOUNTS, VALUES, [[1.]]),
    lambda: n_step.values_of_actions(NEXT_ACTION_VALUES, NEXT_ACTIONS[1:])])
def test_shapes_that_do_not_fit_are_refused(call):
  with pytest.raises(ValueError):
    call()


def test_epsilon_ends_at_each_value_as_often_as_in_the_paper():
  n = 20_000
  rng = np.random.default_rng(0)
  draws = [n_step.draw_final_epsilon(rng) for _ in range(n)]
  # Section 8: 0.1, 0.01 and 0.5 with probabilities 0.4, 0.3 and 0.3.
  for value, probability in ((.1, .4), (.01, .3), (.5, .3)):
    deviation = np.sqrt(probability * (1 - probability) / n)
    assert abs(draws.count(value) / n - probability) < 4 * deviation
  assert set(draws) == {.1, .01, .5}


@pytest.mark.parametrize('final, quarter', [
    (.1, .775), (.01, .7525), (.5, .875)])
def test_epsilon_falls_from_1_in_a_line_and_stays(final, quarter):
  for frames, expected in ((0, 1), (1_000_000, quarter), (4_000_000, final),
                           (4_000_005, final), (10**9, final)):
    assert n_step.annealed_epsilon(
        final, frames, 4_000_000) == pytest.approx(expected, abs=1e-12)
