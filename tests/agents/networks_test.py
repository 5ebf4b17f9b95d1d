"""Torsos and the LSTM against NumPy in float64, and their initial weights."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import networks
from impala_tf.agents import torsos

ATARI = 84, 84, 4


def _randomise(module, scale=1.0):
  """Gives biases, which start at zero, a value too."""
  rng = np.random.default_rng(1)
  for v in module.trainable_variables:
    std = scale / np.sqrt(np.prod(v.shape[:-1]))
    v.assign(rng.normal(scale=std, size=v.shape))


def _layers(torso):
  """Returns kernel and bias of each layer in float64; dense ones last."""
  variables = [v.numpy().astype(np.float64) for v in torso.trainable_variables]
  pairs = list(zip(variables[::2], variables[1::2]))
  return sorted(pairs, key=lambda pair: pair[0].ndim, reverse=True)


def _windows(x, size, stride, same, fill):
  """Returns each place of a kernel's inputs, [size, size, N, H', W', C]."""
  outputs = []
  for axis in 1, 2:
    length = x.shape[axis]
    if same:
      out = -(-length // stride)
      pad = max((out - 1) * stride + size - length, 0)
      widths = [(0, 0)] * x.ndim
      widths[axis] = (pad // 2, pad - pad // 2)
      x = np.pad(x, widths, constant_values=fill)
    else:
      out = (length - size) // stride + 1
    outputs.append(out)
  height, width = outputs
  return np.array([[x[:, i:i + stride * height:stride,
                      j:j + stride * width:stride]
                    for j in range(size)] for i in range(size)])


def _conv(x, layer, stride, same):
  kernel, bias = layer
  windows = _windows(x, len(kernel), stride, same, 0.0)
  return np.einsum('ijnhwc,ijcd->nhwd', windows, kernel) + bias


def _pool(x):
  return _windows(x, 3, 2, True, -np.inf).max(axis=(0, 1))


def _relu(x):
  return np.maximum(x, 0.0)


def _dense(x, layer):
  return _relu(x.reshape([len(x), -1]) @ layer[0] + layer[1])


def _strided(images, layers, strides):
  """Computes the torso of figure 3, left, or that of Mnih et al. 2015."""
  x = images / 255.0
  for layer, stride in zip(layers, strides):
    x = _relu(_conv(x, layer, stride, same=False))
  return _dense(x, layers[-1])


def _linear_convolutions(images, layers):
  """Computes the encoder of images of Mnih et al. 2016, section 9."""
  x = _conv(images / 255.0, layers[0], 4, same=False)
  x = _conv(x, layers[1], 2, same=False)
  return x.reshape([len(x), -1])


def _deep(images, layers):
  """Computes the torso of figure 3, right."""
  layers = iter(layers)
  x = images / 255.0
  for _ in range(3):
    x = _pool(_conv(x, next(layers), 1, same=True))
    for _ in range(2):
      y = _conv(_relu(x), next(layers), 1, same=True)
      y = _conv(_relu(y), next(layers), 1, same=True)
      x = x + y
  return _dense(_relu(x), next(layers))


# Odd lengths, and height unlike width.
@pytest.mark.parametrize('torso,oracle,image', [
    ('shallow', functools.partial(_strided, strides=(4, 2)), (21, 37, 2)),
    ('nature', functools.partial(_strided, strides=(4, 2, 1)), (37, 45, 2)),
    ('deep', _deep, (20, 21, 3)),
    ('linear_convolutions', _linear_convolutions, (21, 37, 2))])
def test_image_torso_is_that_of_its_paper_of_pixels_divided_by_255(
    torso, oracle, image):
  torso = networks.TORSOS[torso](7)
  torso(tf.zeros((1,) + image, tf.uint8))  # Creates the variables.
  _randomise(torso, scale=2.0)
  images = np.random.default_rng(0).integers(256, size=(3,) + image)
  expected = oracle(images.astype(np.float64), _layers(torso))
  assert 0.2 < np.mean(expected > 0) < 0.9
  np.testing.assert_allclose(
      torso(tf.constant(images, tf.uint8)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('name, num_layers, dtype', [
    ('mlp', 2, np.float32), ('mlp', 2, np.int64), ('dense', 1, np.uint8)])
def test_torso_of_dense_layers_takes_numbers_of_any_type_and_shape_as_they_are(
    name, num_layers, dtype):
  torso = networks.TORSOS[name](5)
  observations = np.random.default_rng(0).integers(9, size=[4, 2, 3])
  observations = observations.astype(dtype)
  torso(tf.constant(observations))
  assert len(_layers(torso)) == num_layers
  _randomise(torso)
  expected = observations
  for layer in _layers(torso):
    expected = _dense(expected, layer)
  assert (expected > 0).any()
  outputs = torso(tf.constant(observations))
  assert outputs.dtype == tf.float32
  np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


# Of Atari: a kernel's shape, and how many inputs one of its outputs sums over.
# Shallow, VALID: 84 -> (84-8)/4+1 = 20 -> (20-4)/2+1 = 9, and Nature's third
# convolution 9 -> 7. Deep, SAME: each pooling halves, rounded up: 84 -> 42 ->
# 21 -> 11. Paper's sizes for DMLab-30 are in agent_test.py.
@pytest.mark.parametrize('torso, num_kernels, fan_ins', [
    ('shallow', 3, {
        (8, 8, 4, 16): 256, (4, 4, 16, 32): 256, (9 * 9 * 32, 256): 2592}),
    ('nature', 4, {
        (8, 8, 4, 32): 256, (4, 4, 32, 64): 512, (3, 3, 64, 64): 576,
        (7 * 7 * 64, 256): 3136}),
    ('deep', 16, {
        (3, 3, 4, 16): 36, (3, 3, 16, 16): 144, (3, 3, 16, 32): 144,
        (3, 3, 32, 32): 288, (11 * 11 * 32, 256): 3872})])
def test_weights_start_truncated_normal_by_fan_in_and_biases_zero(
    torso, num_kernels, fan_ins):
  tf.random.set_seed(3)
  module = networks.TORSOS[torso](256)
  module(tf.zeros((1,) + ATARI, tf.uint8))
  kernels = [v for v in module.trainable_variables if v.shape.rank > 1]
  assert len(kernels) == num_kernels
  assert {tuple(k.shape) for k in kernels} == set(fan_ins)
  first_weights = set()
  for kernel in kernels:
    # In units of 1/sqrt(fan-in). Truncation at 2 leaves a deviation of 0.8796:
    # corrected for that (as Keras's VarianceScaling is) it would be 1.
    weights = kernel.numpy() * np.sqrt(fan_ins[tuple(kernel.shape)])
    assert 1.9 < np.abs(weights).max() <= 2.00001
    num = weights.size
    assert abs(weights.std() - 0.8796) < 4 * 0.88 / np.sqrt(2 * num)
    assert abs(weights.mean()) < 4 * 0.88 / np.sqrt(num)
    first_weights.add(float(weights.flat[0]))
  assert len(first_weights) == len(kernels)  # No two start alike.
  for v in module.trainable_variables:
    if v.shape.rank == 1:
      np.testing.assert_array_equal(v, 0)


def _lstm_core():
  core = networks.LSTMCore(256)
  core(tf.zeros([1, 1, 266]), tf.zeros([1, 1], tf.bool), core.initial_state(1))
  return core


def _kernels(module, shapes):
  kernels = {tuple(v.shape): v.numpy() for v in module.trainable_variables}
  return [kernels[shape] for shape in shapes]


# By hand: sqrt(6 / 1546) with 266 inputs and 256 units, sqrt(6 / 340) with 20
# and 64. Fans of each kernel by itself would give others.
@pytest.mark.parametrize('make, shapes, limit', [
    (_lstm_core, [(266, 1024), (256, 1024)], 0.0622975),
    (lambda: _encoder(), [(20, 256), (64, 256)], 0.1328422)])
def test_both_kernels_of_an_lstm_start_as_one_of_glorot(make, shapes, limit):
  tf.random.set_seed(3)
  module = make()
  kernels = _kernels(module, shapes)
  for weights in kernels:
    assert 0.99 * limit < weights.max() < limit * (1 + 1e-6)
    assert 0.99 * limit < -weights.min() < limit * (1 + 1e-6)
    # A uniform variable's variance is limit^2 / 3, its kurtosis 9/5.
    deviation = limit / np.sqrt(3)
    assert abs(weights.mean()) < 4 * deviation / np.sqrt(weights.size)
    assert abs(weights.std() / deviation - 1) < 4 * np.sqrt(
        (9 / 5 - 1) / 4 / weights.size)
  assert kernels[0][0, 0] != kernels[1][0, 0]
  for v in module.trainable_variables:
    if v.shape.rank == 1:
      np.testing.assert_array_equal(v, 0)
  tf.random.set_seed(3)
  for weights, same in zip(kernels, _kernels(make(), shapes)):
    np.testing.assert_array_equal(weights, same)


T, B, F, SIZE = 7, 3, 4, 5


@pytest.fixture(name='core')
def _core():
  core = networks.LSTMCore(SIZE)
  core(tf.zeros([1, B, F]), tf.zeros([1, B], tf.bool), core.initial_state(B))
  _randomise(core, scale=2.0)
  return core


def _inputs(num_steps=T):
  """Makes inputs, resets (none, at the first step, inside) and a state."""
  rng = np.random.default_rng(0)
  resets = np.zeros([num_steps, B], bool)
  resets[0, 1] = resets[3, 1] = resets[2, 2] = True
  state = networks.LSTMState(*(
      tf.constant(rng.normal(size=[B, SIZE]), tf.float32) for _ in range(2)))
  inputs = tf.constant(rng.normal(size=[num_steps, B, F]), tf.float32)
  return inputs, tf.constant(resets), state


def _lstm_steps(module, inputs, resets, h, c):
  """Yields an LSTM's states [size] after each input [F], by the equations."""
  size = len(h)
  weights = {tuple(v.shape): v.numpy().astype(np.float64)
             for v in module.trainable_variables}
  for x, reset in zip(inputs, resets):
    if reset:
      h, c = np.zeros(size), np.zeros(size)
    gates = (x @ weights[len(x), 4 * size] + h @ weights[size, 4 * size] +
             weights[(4 * size,)])
    i, new, forget, o = np.split(gates, 4)
    i, forget, o = (1 / (1 + np.exp(-z)) for z in (i, forget + 1, o))
    c = forget * c + i * np.tanh(new)
    h = o * np.tanh(c)
    yield h, c


def _numpy_lstm(core, inputs, resets, state):
  """Computes an LSTM's outputs and last states, one unroll after another."""
  outputs = np.zeros(inputs.shape[:2] + (SIZE,))
  last = networks.LSTMState(np.zeros([B, SIZE]), np.zeros([B, SIZE]))
  for b in range(B):
    steps = _lstm_steps(core, inputs[:, b].numpy().astype(np.float64),
                        resets[:, b], *(s[b].numpy() for s in state))
    for t, (h, c) in enumerate(steps):
      outputs[t, b], last.hidden[b], last.cell[b] = h, h, c
  return outputs, last


# 40 steps are too many to unroll statically: a loop in the graph.
@pytest.mark.parametrize('num_steps', [T, 40])
def test_the_lstm_is_that_of_the_equations(core, num_steps):
  inputs, resets, state = _inputs(num_steps)
  outputs, last = core(inputs, resets, state)
  expected, expected_last = _numpy_lstm(core, inputs, resets, state)
  np.testing.assert_allclose(outputs, expected, atol=1e-5)
  assert isinstance(last, networks.LSTMState)
  for s, e in zip(last, expected_last):
    np.testing.assert_allclose(s, e, atol=1e-5)


def test_a_loop_over_unknown_steps_has_the_static_unrolls_gradients(core):
  inputs, resets, state = _inputs()

  def gradients(inputs, resets, state):
    with tf.GradientTape() as tape:
      outputs, last = core(inputs, resets, state)
      loss = tf.reduce_sum(outputs**2) + tf.reduce_sum(last.cell)
    return outputs, tape.gradient(loss, core.trainable_variables)

  state_spec = tf.TensorSpec([None, SIZE])
  of_any_size = tf.function(gradients, input_signature=(
      tf.TensorSpec([None, None, F]), tf.TensorSpec([None, None], tf.bool),
      networks.LSTMState(state_spec, state_spec)))
  static = gradients(inputs, resets, state)
  looped = of_any_size(inputs, resets, state)
  for x, y in zip(tf.nest.flatten(looped), tf.nest.flatten(static)):
    np.testing.assert_allclose(x, y, atol=1e-5)


def _encoder(compiled=False):
  encoder = networks.InstructionEncoder(compiled)
  encoder(tf.ones([1, 1], tf.int32))
  return encoder


def _numpy_encoder(encoder, instructions):
  """Encodes instructions word by word, up to the last of each."""
  table, = [v.numpy().astype(np.float64) for v in encoder.trainable_variables
            if v.shape == (1001, 20)]
  outputs = np.zeros([len(instructions), 64])
  for n, words in enumerate(instructions):
    steps = _lstm_steps(encoder, [table[word] for word in words],
                        [False] * len(words), np.zeros(64), np.zeros(64))
    for h, _ in steps:
      outputs[n] = h
  return outputs


# From 33 words on they are read in a loop of the graph.
@pytest.mark.parametrize('length, compiled', [
    (4, False), (7, True), (40, False), (40, True)])
def test_encoding_of_an_instruction_is_the_lstms_output_at_its_last_word(
    length, compiled):
  encoder = _encoder(compiled)
  _randomise(encoder, scale=2.0)
  # Some more than once, in another order than that of their ids.
  instructions = [[], [1000], [5, 1, 5], [1, 5, 5], [9, 8, 7, 6], [5, 1, 5], []]
  padded = np.zeros([len(instructions), length], np.int32)
  for row, words in zip(padded, instructions):
    row[:len(words)] = words
  outputs = tf.function(encoder, jit_compile=compiled)(tf.constant(padded))
  assert outputs.shape == [7, 64] and outputs.dtype == tf.float32
  expected = _numpy_encoder(encoder, instructions)
  assert not expected[0].any() and np.abs(np.diff(expected, axis=0)).max() > .1
  np.testing.assert_allclose(outputs, expected, atol=1e-5)


def test_words_start_as_standard_normal_vectors_of_20():
  embedding, = [v for v in _encoder().trainable_variables
                if v.shape == (1001, 20)]
  values = embedding.numpy()
  assert abs(values.mean()) < 4 / np.sqrt(values.size)
  assert abs(values.std() - 1) < 4 / np.sqrt(2 * values.size)
  assert np.abs(values).max() > 3  # Not truncated.


class _Own(tf.Module):
  """A torso that a user has registered."""

  def __init__(self, hidden_size, precision):
    super().__init__()
    self.made_of = (hidden_size, precision)


def test_registered_torso_is_made_of_size_and_precision(monkeypatch):
  monkeypatch.setitem(torsos.OWN, 'own', _Own)
  torso = networks.make_torso('own', 7, 'mixed_bfloat16', gain=2.0)
  assert torso.made_of == (7, 'mixed_bfloat16')
  # Nobody would find the variables of a function.
  monkeypatch.setitem(torsos.OWN, 'own', lambda size, precision: tf.identity)
  with pytest.raises(config_lib.ConfigError, match='own.* must be a tf.Module'):
    networks.make_torso('own', 7)


@pytest.mark.parametrize('features', [
    np.zeros([3, 2, 2], np.float32), np.zeros([3, 2], np.float16)])
def test_torso_that_returns_no_features_is_refused(features):
  with pytest.raises(config_lib.ConfigError, match='return.* float32 .N, F.'):
    networks.checked_features('own', tf.constant(features))


def test_names_of_torsos_are_those_of_the_table():
  assert tuple(networks.TORSOS) == torsos.BUILT_IN
