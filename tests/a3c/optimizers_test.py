"""Optimisers of shared vectors do what the paper's formulas say."""

import numpy as np
import pytest

from impala_tf.a3c import optimizers


class _Overwritten(np.ndarray):
  """Memory in which another process leaves -1 as soon as it is written to."""

  def __setitem__(self, key, value):
    super().__setitem__(key, -1.)

  def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
    inputs = [x.view(np.ndarray) if x is self else x for x in inputs]
    values = getattr(ufunc, method)(*inputs, **kwargs)
    if out is None:
      return values
    self[:] = values
    return self


def test_mean_squares_are_read_once_and_not_after_others_wrote_there():
  parameter = np.zeros(1, np.float32)
  slot = np.zeros(1, np.float32).view(_Overwritten)
  optimizers.rmsprop(parameter, slot, np.full(1, 2, np.float32), 1., 0.99, 0.1)
  assert parameter[0] == pytest.approx(-5.345225, abs=1e-6)
  assert slot[0] == -1


@pytest.mark.parametrize('name', ['rmsprop', 'momentum_sgd'])
def test_steps_are_those_of_float64(name):
  rng = np.random.default_rng(0)
  start, gradients = rng.normal(size=5), rng.normal(size=(7, 5))
  parameters, slot = start.astype(np.float32), np.zeros(5, np.float32)
  expected, memory = start.copy(), np.zeros(5)
  update = optimizers.make(name, decay=0.9, epsilon=1e-3)
  for gradient in gradients:
    update(parameters, slot, gradient.astype(np.float32), 0.01)
    if name == 'rmsprop':
      memory = 0.9 * memory + 0.1 * gradient ** 2
      expected -= 0.01 * gradient / (memory + 1e-3) ** 0.5
    else:
      memory = 0.9 * memory + 0.1 * gradient
      expected -= 0.01 * memory
  assert parameters.dtype == slot.dtype == np.float32
  np.testing.assert_allclose(parameters, expected, rtol=1e-5)
  np.testing.assert_allclose(slot, memory, rtol=1e-5)


def test_shared_mean_squares_are_one_vector():
  assert [optimizers.num_slots(name, 16) for name in (
      'shared_rmsprop', 'rmsprop', 'momentum_sgd')] == [1, 16, 16]
