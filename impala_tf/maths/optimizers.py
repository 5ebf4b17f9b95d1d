"""RMSProp with TensorFlow 1's arithmetic, and what surrounds an update.

The paper's code trained with TensorFlow 1's RMSProp. Later forms put epsilon
outside the square root or start the mean square at zero, and differ by up to
ten times in the first steps: learning rates and epsilons do not carry over.
"""

from typing import Callable, Iterable, Optional, Sequence, Tuple, Union

import tensorflow as tf

LearningRate = Union[float, tf.Tensor, Callable[[], Union[float, tf.Tensor]]]


class RMSProp(tf.Module):
  """RMSProp (Tieleman and Hinton 2012), not centred, as TensorFlow 1 has it.

  For every variable and its gradient g, with ms starting at ONE and mom at 0:

    ms  <- decay ms + (1 - decay) g^2
    mom <- momentum mom + learning_rate g / sqrt(ms + epsilon)
    variable <- variable - mom

  The paper has momentum 0 and an epsilon of 0.01 for Atari (table G.1) and
  from 1e-7 to 0.1 for DMLab (table D.1); its published code has decay 0.99.

  With `tf.distribute`, call `build` where the variables were made, under
  `strategy.scope()`, and `apply_gradients` in each replica, inside
  `strategy.run`, with gradients that the caller has already summed over the
  replicas.

  Attributes:
    learning_rate: may be replaced between steps that are not compiled.
    mean_squares: ms, one a variable in the order of `build`; in a checkpoint
      `mean_squares/<index>`.
    momenta: mom, likewise. Kept without momentum too: the kernel wants it.
  """

  def __init__(self, learning_rate: LearningRate, decay: float, epsilon: float,
               momentum: float = 0.0):
    """Creates the optimiser, yet without slots.

    Args:
      learning_rate: a number, a scalar, or a function without arguments that
        gives one; called at every `apply_gradients`.
      decay: of the mean square, in [0, 1).
      epsilon: added to the mean square, inside of the root.
      momentum: in [0, 1); 0 for none.
    """
    super().__init__(name='rmsprop')
    self.learning_rate = learning_rate
    self._decay = decay
    self._epsilon = epsilon
    self._momentum = momentum
    self._variable_refs = None

  def build(self, variables: Sequence[tf.Variable]) -> None:
    """Creates the slots, so that a checkpoint can be restored into them.

    Args:
      variables: what will be trained. Their order names the slots.

    Raises:
      ValueError: called twice, or outside of the variables' strategy scope.
    """
    if self._variable_refs is not None:
      raise ValueError('RMSProp.build was called before')
    strategy = tf.distribute.get_strategy()
    for variable in variables:
      # Slots of another scope would be shared by replicas, without any error.
      if not strategy.extended.variable_created_in_scope(variable):
        raise ValueError(f'variable {variable.name} belongs to another '
                         'strategy; call build under its strategy.scope()')
    self._variable_refs = tuple(v.ref() for v in variables)
    self.mean_squares = [
        tf.Variable(tf.ones(v.shape, v.dtype), trainable=False,
                    name='mean_square') for v in variables]
    self.momenta = [
        tf.Variable(tf.zeros(v.shape, v.dtype), trainable=False,
                    name='momentum') for v in variables]

  def apply_gradients(
      self,
      grads_and_vars: Iterable[Tuple[tf.Tensor, tf.Variable]]) -> None:
    """Performs one step.

    Args:
      grads_and_vars: a gradient for each variable, in the order of `build`.
        `tf.IndexedSlices` are made dense: rows of an embedding that no input
        touched have gradient 0, and their mean square decays.

    Raises:
      ValueError: not exactly the variables of `build`, or one has no gradient.
    """
    grads_and_vars = tuple(grads_and_vars)
    if self._variable_refs != tuple(v.ref() for _, v in grads_and_vars):
      raise ValueError('apply_gradients needs the variables that RMSProp.build '
                       'was given, in that order')
    for gradient, variable in grads_and_vars:
      if gradient is None:
        raise ValueError(f'variable {variable.name} has no gradient')

    learning_rate = self.learning_rate
    if callable(learning_rate):
      learning_rate = learning_rate()
    for i, (gradient, variable) in enumerate(grads_and_vars):
      dtype = variable.dtype
      tf.raw_ops.ResourceApplyRMSProp(
          var=variable.handle,
          ms=self.mean_squares[i].handle,
          mom=self.momenta[i].handle,
          lr=tf.cast(learning_rate, dtype),
          rho=tf.cast(self._decay, dtype),
          momentum=tf.cast(self._momentum, dtype),
          epsilon=tf.cast(self._epsilon, dtype),
          grad=tf.convert_to_tensor(gradient, dtype))


def linear_anneal(initial_value: float, frames: Union[int, tf.Tensor],
                  total_frames: int) -> tf.Tensor:
  """Goes from `initial_value` at frame 0 to 0 at `total_frames`, and stays.

  The learning rate's schedule in the paper (table G.1).

  Args:
    initial_value: at frame 0.
    frames: int64 [] or a number, environment frames so far.
    total_frames: environment frames of the whole run, above 0.

  Returns:
    float32 [], never below 0.

  Raises:
    ValueError: `total_frames` is not above 0.
  """
  if total_frames <= 0:
    raise ValueError(f'total_frames must be above 0, but is {total_frames}')
  # In integers, because float32 cannot tell 200,000,000 from its neighbours.
  remaining = tf.maximum(total_frames - tf.cast(frames, tf.int64), 0)
  return initial_value * tf.cast(remaining / total_frames, tf.float32)


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor], max_norm: Optional[float]
) -> Tuple[Sequence[tf.Tensor], tf.Tensor]:
  """Scales gradients down together so that their norm is at most `max_norm`.

  A gradient that is not finite makes the norm so. With a `max_norm`, ALL
  gradients are then NaN; without, they are returned as they came. A caller that
  wants to survive must look at the norm before it applies them.

  Args:
    gradients: tensors.
    max_norm: bound of the l2 norm of all gradients taken as one vector, above
      0. None: do not clip.

  Returns:
    The gradients, and their norm BEFORE clipping, float32 [].
  """
  norm = tf.linalg.global_norm(gradients)
  if max_norm is not None:
    gradients, _ = tf.clip_by_global_norm(gradients, max_norm, use_norm=norm)
  return gradients, norm
