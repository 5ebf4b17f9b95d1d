"""PopArt's maths against the papers' formulae in float64."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import popart
from impala_tf.maths import running_moments

T, B, L, F = 5, 4, 3, 6
TASK = np.array([2, 0, 2, 0], np.int32)  # Task 1 plays nothing.
STEP = 0.05


def _moments(dtype=np.float64):
  """Makes moments of three tasks at different scales."""
  return running_moments.Moments(tf.constant([3., -0.5, 200.], dtype),
                                 tf.constant([4., 0.3, 900.], dtype))


def _targets(seed=0):
  """Makes targets [T, B] and their mask."""
  rng = np.random.default_rng(seed + 1)
  targets = rng.normal([150., 2., 300., -8.], [40., 3., 10., 1.], size=[T, B])
  mask = (rng.random([T, B]) < 0.7).astype(np.float64)
  assert 0 < mask[:, 0].sum() < T and 0 < mask[:, 1].sum() < T
  return targets, mask


def _updated(moments, targets, mask, task=TASK, step=STEP):
  dtype = moments.mean.dtype
  totals = popart.totals(tf.constant(targets, dtype), tf.constant(mask, dtype),
                         tf.constant(task), moments)
  return popart.update(moments, totals, step)


def _layer(dtype=np.float64):
  rng = np.random.default_rng(1)
  return (tf.constant(rng.normal(size=[F, L]), dtype),
          tf.constant(rng.normal(size=[L]), dtype))


def _values(kernel, bias, moments, inputs):
  """Computes V of every task, [N, L], in float64."""
  kernel, bias, mean, sigma = (
      np.float64(x) for x in (kernel, bias, moments.mean,
                              popart.scale(moments)))
  return sigma * (inputs @ kernel + bias) + mean


def test_n_targets_at_once_weigh_as_much_as_n_steps():
  old = _moments()
  targets, mask = _targets()
  new = _updated(old, targets, mask)
  for task in 0, 2:
    counted = targets[:, TASK == task][mask[:, TASK == task] == 1]
    kept = (1 - STEP)**len(counted)
    mu = np.float64(old.mean[task])
    nu = np.float64(old.variance[task]) + mu**2
    mu = kept * mu + (1 - kept) * np.mean(counted)
    nu = kept * nu + (1 - kept) * np.mean(counted**2)
    np.testing.assert_allclose(new.mean[task], mu, rtol=1e-12)
    np.testing.assert_allclose(new.variance[task], nu - mu**2, rtol=1e-9)


@pytest.mark.parametrize('dtype, tolerance', [
    (np.float64, 1e-13), (np.float32, 3e-6)])
def test_outputs_are_preserved_precisely(dtype, tolerance):
  old, (kernel, bias) = _moments(dtype), _layer(dtype)
  new = _updated(old, *_targets())
  inputs = np.random.default_rng(4).normal(size=[50, F])
  before = _values(kernel, bias, old, inputs)
  after = _values(*popart.rescale(kernel, bias, old, new), new, inputs)
  np.testing.assert_allclose(after, before, rtol=0,
                             atol=tolerance * np.abs(before).max())
  # Not because nothing has moved.
  scales = popart.scale(new) / popart.scale(old)
  assert scales[0] > 1.2 and abs(scales[2] - 1) > 0.2
  wrong = _values(kernel, bias, new, inputs)
  assert np.abs(wrong - before)[:, [0, 2]].min(axis=0).max() > 0.1


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
def test_task_without_targets_stays_to_the_last_bit(dtype):
  old = running_moments.Moments(tf.constant([1., 1 / 3, 5.], dtype),
                                tf.constant([1., 0.7, 5.], dtype))
  kernel, bias = _layer(dtype)
  targets, mask = _targets()
  mask[:, 1] = mask[:, 3] = 0  # All of task 0's are masked.
  new = _updated(old, targets, mask)
  for before, after in zip((*old, kernel, bias), (
      *new, *popart.rescale(kernel, bias, old, new))):
    np.testing.assert_array_equal(after[..., :2], before[..., :2])
    assert np.all(after[..., 2] != before[..., 2])


@pytest.mark.parametrize('scale_of_targets, bound', [
    (0., popart.MIN_SCALE), (1e9, popart.MAX_SCALE)])
def test_sigma_is_bounded_and_outputs_are_preserved_there(
    scale_of_targets, bound):
  moments, (kernel, bias) = _moments(), _layer()
  inputs = np.random.default_rng(5).normal(size=[20, F])
  before = _values(kernel, bias, moments, inputs)
  rng = np.random.default_rng(6)
  for _ in range(40):
    targets = rng.normal(scale=scale_of_targets, size=[200, L])
    new = _updated(moments, targets, np.ones_like(targets), np.arange(L))
    kernel, bias = popart.rescale(kernel, bias, moments, new)
    moments = new
  np.testing.assert_array_equal(popart.scale(moments), [bound] * L)
  np.testing.assert_allclose(_values(kernel, bias, moments, inputs), before,
                             rtol=1e-6, atol=1e-6)


def test_float32_keeps_a_small_spread_around_a_large_mean():
  """The difference of the papers' moments would be only rounding here."""
  rng = np.random.default_rng(7)
  moments = running_moments.Moments(tf.zeros([1]), tf.ones([1]))
  for _ in range(300):
    targets = rng.normal(1e5, 2., size=[20, 1])
    moments = _updated(moments, targets, np.ones_like(targets), [0])
  np.testing.assert_allclose(moments.mean, [1e5], rtol=1e-5)
  np.testing.assert_allclose(popart.scale(moments), [2.], rtol=0.2)


def test_values_are_of_their_own_task_and_so_are_gradients():
  moments = _moments(np.float32)
  outputs = tf.constant(
      np.random.default_rng(8).normal(size=[T, B, L]), tf.float32)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch((outputs, *moments))
    values = popart.denormalise(outputs, moments, tf.constant(TASK))
    total = tf.reduce_sum(values)
  sigma = np.sqrt(moments.variance)
  for b, task in enumerate(TASK):
    np.testing.assert_allclose(
        values[:, b], sigma[task] * outputs[:, b, task] + moments.mean[task],
        rtol=1e-6)
  expected = np.zeros([T, B, L])
  expected[:, range(B), TASK] = sigma[TASK]
  np.testing.assert_allclose(tape.gradient(total, outputs), expected, rtol=1e-6)
  assert tape.gradient(total, list(moments)) == [None, None]


def test_totals_carry_no_gradient():
  moments, (targets, mask) = _moments(), _targets()
  targets = tf.constant(targets)
  with tf.GradientTape() as tape:
    tape.watch(targets)
    totals = popart.totals(targets, mask, TASK, moments)
    total = tf.add_n([tf.reduce_sum(t) for t in totals])
  assert tape.gradient(total, targets) is None


def test_wrong_shapes_are_refused():
  moments, (targets, mask) = _moments(), _targets()
  kernel, bias = _layer()
  with pytest.raises(ValueError):
    popart.denormalise(tf.zeros([T, B, L + 1], tf.float64), moments, TASK)
  with pytest.raises(ValueError):
    popart.totals(tf.constant(targets), tf.constant(mask), TASK[:-1], moments)
  with pytest.raises(ValueError):
    popart.rescale(tf.transpose(kernel), bias, moments, moments)
