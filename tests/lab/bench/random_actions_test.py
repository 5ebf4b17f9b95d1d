"""Random actions of each kind."""

import numpy as np
import pytest

from impala_tf.envs import environment
from lab.bench import random_actions

E = 9000
_ONE, _TWO = environment.discrete(3), environment.multi_discrete([4, 2])


@pytest.mark.parametrize('spec,mask,shares', [
    (_ONE, (), [[1 / 3] * 3]),
    (_ONE, [1, 0, 1], [[1 / 2, 0, 1 / 2]]),
    (_TWO, (), [[1 / 4] * 4, [1 / 2] * 2]),
    (_TWO, [1, 0, 1, 1, 0, 1], [[1 / 3, 0, 1 / 3, 1 / 3], [0, 1]]),
])
def test_legal_actions_come_alike_and_no_other(spec, mask, shares):
  if mask:
    mask = np.tile(np.uint8(mask), [E, 1])
  actions = random_actions.draw(np.random.default_rng(0), spec, E, mask)
  assert actions.dtype == np.int32 and actions.shape == (E, *spec.shape)
  for choice, wanted in zip(actions.reshape([E, -1]).T, shares):
    found = np.bincount(choice, minlength=len(wanted)) / E
    np.testing.assert_allclose(found, wanted, atol=0.02)
    np.testing.assert_array_equal(found > 0, np.greater(wanted, 0))


@pytest.mark.parametrize('bound', [0.5, np.inf])
def test_continuous_actions_need_no_bounds(bound):
  spec = environment.continuous([-bound] * 2, [bound] * 2)
  actions = random_actions.draw(np.random.default_rng(0), spec, E)
  assert actions.dtype == np.float32 and actions.shape == (E, 2)
  assert np.isfinite(actions).all() and (actions.std(axis=0) > 0.8).all()
