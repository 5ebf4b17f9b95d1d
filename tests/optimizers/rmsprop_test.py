"""RMSProp against TensorFlow 1's own, alone and under tf.distribute."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf.optimizers import rmsprop
from tests.fixtures import two_cpus

SETTINGS = dict(decay=0.9, epsilon=0.05, momentum=0.8)
RATES = (0.5, 0.4, 0.3, 0.2)
# A step a row; gradients on both sides of epsilon, and some of exactly 0.
GRADIENTS = np.float32([[1e-3, -2.0, 0.0],
                        [0.3, 1.0, 0.0],
                        [-5.0, 0.1, 0.2],
                        [0.0, 0.1, -7.0]])
START = np.float32([1.0, -1.0, 0.5])


def _tf1_positions():
  """Returns the variable after every step of TensorFlow 1's optimiser."""
  variable = tf.Variable(START)
  rate = tf.Variable(0.0)
  optimizer = tf.compat.v1.train.RMSPropOptimizer(
      lambda: rate, **SETTINGS, centered=False)
  positions = []
  for learning_rate, gradient in zip(RATES, GRADIENTS):
    rate.assign(learning_rate)
    optimizer.apply_gradients([(tf.constant(gradient), variable)])
    positions.append(variable.numpy())
  return positions


def _make(start=START, learning_rate=lambda: 1., **settings):
  settings = {**SETTINGS, **settings}
  epsilon = settings.pop('epsilon')
  variable, optimizer = tf.Variable(start), rmsprop.RMSProp(
      learning_rate, epsilon=lambda: epsilon, **settings)
  optimizer.build([variable])
  return variable, optimizer


@pytest.mark.parametrize('jit_compile', [False, True])
def test_steps_are_those_of_tensorflow_1_with_a_rate_for_each(jit_compile):
  rate = tf.Variable(0.0)
  variable, optimizer = _make(learning_rate=lambda: 2 * rate)

  @tf.function(jit_compile=jit_compile)
  def step(gradient):
    optimizer.apply_gradients([(gradient, variable)])

  for value, gradient, expected in zip(RATES, GRADIENTS, _tf1_positions()):
    rate.assign(value / 2)
    step(tf.constant(gradient))
    np.testing.assert_allclose(variable, expected, rtol=1e-5)


@pytest.mark.parametrize('jit_compile', [False, True])
def test_bias_correction_divides_by_the_mean_of_the_squares_so_far(jit_compile):
  variable, optimizer = _make(bias_correction=True)
  step = tf.function(
      lambda gradient: optimizer.apply_gradients([(gradient, variable)]),
      jit_compile=jit_compile)
  position, momentum = np.float64(START), np.zeros(3)
  decay = SETTINGS['decay']
  for t, gradient in enumerate(np.float64(GRADIENTS), start=1):
    step(tf.constant(gradient, tf.float32))
    weights = decay**np.arange(t - 1, -1, -1)
    mean_square = weights @ np.float64(GRADIENTS[:t])**2 / weights.sum()
    momentum = SETTINGS['momentum'] * momentum + gradient / np.sqrt(
        mean_square + SETTINGS['epsilon'])
    position -= momentum
    np.testing.assert_allclose(variable, position, rtol=1e-5)


def test_an_embedding_row_that_was_not_used_has_gradient_0():
  table, optimizer = _make(np.ones([3, 2], np.float32), decay=0.75)
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.gather(table, [2, 0, 2]))
  gradient = tape.gradient(loss, table)
  assert isinstance(gradient, tf.IndexedSlices)
  optimizer.apply_gradients([(gradient, table)])
  np.testing.assert_allclose(
      optimizer.mean_squares[0], [[1.0] * 2, [0.75] * 2, [1.75] * 2])
  np.testing.assert_array_equal(table[1], [1.0, 1.0])


@pytest.mark.parametrize('bias_correction', [False, True])
def test_a_checkpoint_is_restored_before_the_first_step(
    tmp_path, bias_correction):
  variable, optimizer = _make(bias_correction=bias_correction)
  for gradient in GRADIENTS[:2]:
    optimizer.apply_gradients([(tf.constant(gradient), variable)])
  path = tf.train.Checkpoint(
      optimizer=optimizer, variable=variable).write(str(tmp_path / 'ckpt'))
  names = {'_CHECKPOINTABLE_OBJECT_GRAPH', 'variable',
           'optimizer/mean_squares/0', 'optimizer/momenta/0'}
  if bias_correction:
    names.add('optimizer/start_share')
  assert {name.split('/.')[0]
          for name, _ in tf.train.list_variables(path)} == names

  restored_variable, restored = _make(bias_correction=bias_correction)
  tf.train.Checkpoint(optimizer=restored, variable=restored_variable).read(
      path).assert_consumed()
  for v, o in (variable, optimizer), (restored_variable, restored):
    o.apply_gradients([(tf.constant(GRADIENTS[2]), v)])
  np.testing.assert_array_equal(restored_variable, variable)


def _distributed_steps(strategy, jit_compile, **settings):
  """Returns each replica's variable and mean square after steps of `RATES`."""
  with strategy.scope():
    rate = tf.Variable(0.0)
    variable, optimizer = _make(learning_rate=rate.read_value, **settings)

  @tf.function(jit_compile=jit_compile)
  def apply(gradient):
    optimizer.apply_gradients([(gradient, variable)])

  def replica_step(gradient):
    replica = tf.distribute.get_replica_context()
    # Replicas see different gradients, as they see different data.
    share = tf.cast(replica.replica_id_in_sync_group + 1, tf.float32)
    share /= sum(range(1, replica.num_replicas_in_sync + 1))
    apply(replica.all_reduce(tf.distribute.ReduceOp.SUM, share * gradient))

  step = tf.function(lambda g: strategy.run(replica_step, args=(g,)))
  for learning_rate, gradient in zip(RATES, GRADIENTS):
    rate.assign(learning_rate)
    step(tf.constant(gradient))
  return [[x.numpy() for x in strategy.experimental_local_results(v)]
          for v in (variable, optimizer.mean_squares[0])]


def _on_two_cpus():
  """Takes steps in a process of `two_cpus`."""
  strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])
  steps = [_distributed_steps(strategy, jit) for jit in (False, True)]
  corrected = [_distributed_steps(strategy, jit, bias_correction=True)[0]
               for jit in (False, True)]
  return steps, corrected


@pytest.mark.slow
def test_replicas_take_the_same_steps_under_a_mirrored_strategy():
  steps, corrected = two_cpus.call(_on_two_cpus)
  mean_square = np.ones(3)
  for gradient in GRADIENTS:
    mean_square = 0.9 * mean_square + 0.1 * gradient**2
  for positions, mean_squares in steps:
    assert len(positions) == len(mean_squares) == 2
    for position in positions:
      np.testing.assert_allclose(position, _tf1_positions()[-1], rtol=1e-5)
    for x in mean_squares:
      np.testing.assert_allclose(x, mean_square, rtol=1e-5)
  variable, optimizer = _make(
      bias_correction=True, learning_rate=iter(RATES).__next__)
  for gradient in GRADIENTS:
    optimizer.apply_gradients([(tf.constant(gradient), variable)])
  for positions in corrected:
    for position in positions:
      np.testing.assert_allclose(position, variable, rtol=1e-5)
