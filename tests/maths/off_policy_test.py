"""The corrections on one transition or two, worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.maths import off_policy

LOG_RHOS = np.log([[2.0], [0.5]]).astype(np.float32)


def _returns(name, pg_bootstrap='vs', rho=1.0, pg_rho=1.0, c=1.0):
  """Computes targets of two steps: r = 1, 2; V = 3, 5, 7; gamma = 0.5."""

  def column(*xs):
    return tf.constant(xs, tf.float32)[:, tf.newaxis]

  got = off_policy.returns(
      off_policy.CORRECTIONS[name], log_rhos=tf.constant(LOG_RHOS),
      clip_rho_threshold=rho, clip_pg_rho_threshold=pg_rho, clip_c_threshold=c,
      discounts=column(0.5, 0.5), rewards=column(1., 2.), values=column(3., 5.),
      bootstrap_value=tf.constant([7.]), pg_bootstrap=pg_bootstrap)
  return got.vs.numpy()[:, 0], got.pg_advantages.numpy()[:, 0]


# On-policy v_1 = 2 + 3.5 and v_0 = 1 + 0.5 * 5.5. Advantages are v_0 - 3 and
# v_1 - 5. V-trace clips all at 1, so rho is 1 and then 0.5. Its v_1 is
# 5 + 0.5 * 0.5. Its v_0 is 3 + (1 + 2.5 - 3) + 0.5 * 0.25. Its advantages are
# 1 + 0.5 * 5.25 - 3 and 0.5 * (2 + 3.5 - 5).
@pytest.mark.parametrize('name,vs,advantages', [
    ('vtrace', [3.625, 5.25], [0.625, 0.25]),
    ('one_step_is', [3.75, 5.5], [0.75, 0.5 * 0.5]),
    ('epsilon', [3.75, 5.5], [0.75, 0.5]),
    ('none', [3.75, 5.5], [0.75, 0.5]),
])
def test_two_steps_by_hand(name, vs, advantages):
  for got, expected in zip(_returns(name), (vs, advantages)):
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize('name,advantages', [
    # V(x_1) = 5 in the place of v_1, and V(x_2) = 7 as ever.
    ('vtrace', [1 + 2.5 - 3, 0.25]), ('one_step_is', [0.5, 0.25]),
    ('epsilon', [0.5, 0.5]), ('none', [0.5, 0.5])])
def test_advantages_from_values(name, advantages):
  vs, got = _returns(name, 'value')
  np.testing.assert_allclose(got, advantages, rtol=1e-6)
  np.testing.assert_array_equal(vs, _returns(name)[0])


def test_one_step_is_clips_its_ratio_as_configured():
  _, advantages = _returns('one_step_is', pg_rho=1.5)
  np.testing.assert_allclose(advantages, [1.5 * 0.75, 0.25], rtol=1e-6)
  _, advantages = _returns('one_step_is', pg_rho=None)
  np.testing.assert_allclose(advantages, [2 * 0.75, 0.25], rtol=1e-6)
