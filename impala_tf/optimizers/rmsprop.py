"""RMSProp with TensorFlow 1's arithmetic.

The paper's code trained with TensorFlow 1's RMSProp. Later forms put epsilon
outside the square root or start the mean square at zero. The first steps differ
by up to 1 / epsilon times: learning rates and epsilons do not carry over.
"""

from typing import Callable, Iterable, Sequence

import tensorflow as tf

# Function that is asked for a number at every step.
Setting = Callable[[], float | tf.Tensor | tf.Variable]


class RMSProp(tf.Module):
  """RMSProp (Tieleman and Hinton 2012), not centred, as TensorFlow 1 has it.

  For every variable and its gradient g, with ms starting at ONE and mom at 0:

    ms  <- decay ms + (1 - decay) g^2
    mom <- momentum mom + learning_rate g / sqrt(ms + epsilon)
    variable <- variable - mom

  The paper has momentum 0 and an epsilon of 0.01 for Atari (table G.1) and
  from 1e-7 to 0.1 for DMLab (table D.1); its published code has decay 0.99.

  If gradients are small, a start at one makes steps small for the first
  hundreds of updates. With `bias_correction` ms starts at zero. Then step t
  takes ms / (1 - decay^t), the mean of the squares so far (Kingma and Ba 2015,
  arXiv:1412.6980, section 3).

  With `tf.distribute`, call `build` under the `strategy.scope()` of the
  variables. Call `apply_gradients` in each replica, inside `strategy.run`, with
  gradients that are already summed over the replicas.

  Attributes:
    mean_squares: ms, one for each variable in the order of `build`; in a
      checkpoint `mean_squares/<index>`.
    momenta: mom, likewise. Kept without momentum too: the kernel wants it.
    start_share: decay^t, float32 variable, the share that the start has in ms;
      None without bias correction.
  """

  def __init__(self, learning_rate: Setting, decay: float, epsilon: Setting,
               momentum: float = 0.0, bias_correction: bool = False):
    super().__init__(name='rmsprop')
    self._learning_rate = learning_rate
    self._decay = decay
    self._epsilon = epsilon
    self._momentum = momentum
    self._bias_correction = bias_correction

  def build(self, variables: Sequence[tf.Variable]) -> None:
    """Creates each variable's slots, mean square and momentum."""
    start = tf.zeros if self._bias_correction else tf.ones
    self.mean_squares = [
        tf.Variable(start(v.shape, v.dtype), trainable=False,
                    name='mean_square') for v in variables]
    self.momenta = [
        tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False,
                    name='momentum') for v in variables]
    self.start_share = None
    if self._bias_correction:
      self.start_share = tf.Variable(1., trainable=False, name='start_share')

  def apply_gradients(
      self,
      grads_and_vars: Iterable[tuple[tf.Tensor, tf.Variable]]) -> None:
    """Performs one step, with gradients in the order of variables of `build`.

    `tf.IndexedSlices` are made dense: rows of an embedding that no input
    touched have gradient 0, and their mean square decays.
    """
    learning_rate, epsilon = self._learning_rate(), self._epsilon()
    if self.start_share is not None:
      # By the handle each replica changes its own copy, as with the slots.
      handle = self.start_share.handle
      start_share = self._decay * tf.raw_ops.ReadVariableOp(
          resource=handle, dtype=tf.float32)
      tf.raw_ops.AssignVariableOp(resource=handle, value=start_share)
      # g / sqrt(ms / c + epsilon) = sqrt(c) g / sqrt(ms + c epsilon).
      known_share = 1. - start_share
      learning_rate = tf.cast(learning_rate, tf.float32) * tf.sqrt(known_share)
      epsilon = tf.cast(epsilon, tf.float32) * known_share
    for i, (gradient, variable) in enumerate(grads_and_vars):
      dtype = variable.dtype
      tf.raw_ops.ResourceApplyRMSProp(
          var=variable.handle,
          ms=self.mean_squares[i].handle,
          mom=self.momenta[i].handle,
          lr=tf.cast(learning_rate, dtype),
          rho=tf.cast(self._decay, dtype),
          momentum=tf.cast(self._momentum, dtype),
          epsilon=tf.cast(epsilon, dtype),
          grad=tf.convert_to_tensor(gradient, dtype))
