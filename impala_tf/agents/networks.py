"""Torsos, LSTM core, language channel, heads' layers (figure 3, appendix G).

Layers are Keras's. Weights start as in the paper's published code
(deepmind/scalable_agent, `experiment.py`), that is by the defaults of the
libraries it is made of:

  layers                   initial weights                   default of
  =======================  ================================  =================
  convolutions and dense   truncated normal with standard    Sonnet 1's Conv2D
  layers                   deviation 1/sqrt(fan-in)          and Linear
  embedding of words       standard normal                   Sonnet 1's Embed
  LSTMs                    Glorot uniform over inputs and    TensorFlow 1's
                           hidden state together             `get_variable`,
                                                             LSTMBlockCell
  =======================  ================================  =================

Biases start at zero, but 1 is added to that of an LSTM's forget gate.
"""

import math
from typing import NamedTuple, Tuple

import tensorflow as tf

from impala_tf.envs import word_ids

# Beyond this many steps a loop in the graph compiles faster than an unrolled
# one runs: 20 steps are Atari's unroll length, 100 DMLab-30's.
_MAX_STATIC_STEPS = 32


def fan_in_truncated_normal(shape, dtype=tf.float32, **unused_kwargs):
  """Initial weights with variance 1/fan-in before truncation.

  Keras's `VarianceScaling` corrects for the truncation and so differs from the
  original by 14 %.

  Args:
    shape: [..., inputs, outputs] of a kernel.
    dtype: of the weights.

  Returns:
    Tensor of that shape.
  """
  fan_in = math.prod(shape[:-1])
  return tf.random.truncated_normal(shape, stddev=fan_in**-0.5, dtype=dtype)


def glorot_uniform(fan_in: int, fan_out: int):
  """Makes an initializer by Glorot and Bengio 2010, equation 16.

  Keras's own would take the fans from the shape, and knows of one kernel only.

  Args:
    fan_in: inputs that an output is a sum over, of all kernels together.
    fan_out: outputs.

  Returns:
    Initializer with weights uniform within sqrt(6 / (fan_in + fan_out)) of 0.
  """
  limit = math.sqrt(6 / (fan_in + fan_out))

  def initial_weights(shape, dtype=tf.float32, **unused_kwargs):
    return tf.random.uniform(shape, -limit, limit, dtype)

  return initial_weights


def _standard_normal(shape, dtype=tf.float32, **unused_kwargs):
  # Keras's own would not heed `tf.random.set_seed`.
  return tf.random.normal(shape, dtype=dtype)


def linear(size: int, **kwargs) -> tf.keras.layers.Dense:
  """A dense layer with the project's initialisation."""
  return tf.keras.layers.Dense(
      size, kernel_initializer=fan_in_truncated_normal, **kwargs)


def _policy(precision: str) -> tf.keras.mixed_precision.Policy:
  return tf.keras.mixed_precision.Policy(precision)


class _Conv2D(tf.keras.layers.Conv2D):
  """A convolution with the project's initialisation."""

  def __init__(self, channels: int, size: int, stride: int, **kwargs):
    super().__init__(channels, size, stride,
                     kernel_initializer=fan_in_truncated_normal, **kwargs)


class _PixelConv2D(_Conv2D):
  """The first layer of an image torso, on bytes.

  The division by 255 is folded into the kernel: that is 16 x 8 x 8 numbers a
  channel instead of every pixel of the batch.
  """

  def call(self, inputs):
    return super().call(tf.cast(inputs, self.compute_dtype))

  def convolution_op(self, inputs, kernel):
    return super().convolution_op(inputs, kernel / 255.)


# `precision` below is the name of a Keras policy: what layers compute in. Their
# variables and the torso's result are float32 with either.


class ShallowTorso(tf.Module):
  """Figure 3, left: two convolutions and a dense layer."""

  def __init__(self, hidden_size: int, precision: str = 'float32'):
    super().__init__()
    self._layers = [
        _PixelConv2D(16, 8, 4, activation='relu', dtype=_policy(precision)),
        _Conv2D(32, 4, 2, activation='relu', dtype=_policy(precision)),
        tf.keras.layers.Flatten(dtype=_policy(precision)),
        linear(hidden_size, activation='relu', dtype=_policy(precision)),
    ]

  def __call__(self, images: tf.Tensor) -> tf.Tensor:
    """[N, H, W, C] uint8 to [N, hidden_size] float32."""
    outputs = images
    for layer in self._layers:
      outputs = layer(outputs)
    return tf.cast(outputs, tf.float32)


class DeepTorso(tf.Module):
  """Figure 3, right: 15 convolutions in three residual sections."""

  def __init__(self, hidden_size: int, precision: str = 'float32'):
    super().__init__()
    policy = _policy(precision)
    self._sections = []
    for i, channels in enumerate((16, 32, 32)):
      conv = _PixelConv2D if i == 0 else _Conv2D
      self._sections.append((
          conv(channels, 3, 1, padding='same', dtype=policy),
          tf.keras.layers.MaxPool2D(3, 2, padding='same', dtype=policy),
          [[_Conv2D(channels, 3, 1, padding='same', dtype=policy)
            for _ in range(2)] for _ in range(2)],
      ))
    self._to_vectors = tf.keras.layers.Flatten(dtype=policy)
    self._linear = linear(hidden_size, activation='relu', dtype=policy)

  def __call__(self, images: tf.Tensor) -> tf.Tensor:
    """[N, H, W, C] uint8 to [N, hidden_size] float32."""
    outputs = images
    for conv, pool, blocks in self._sections:
      outputs = pool(conv(outputs))
      for block in blocks:
        residual = outputs
        for block_conv in block:
          residual = block_conv(tf.nn.relu(residual))
        outputs += residual
    outputs = self._linear(self._to_vectors(tf.nn.relu(outputs)))
    return tf.cast(outputs, tf.float32)


class MLPTorso(tf.Module):
  """Two dense layers, for observations that are no images."""

  def __init__(self, hidden_size: int, precision: str = 'float32'):
    super().__init__()
    self._layers = [
        linear(hidden_size, activation='relu', dtype=_policy(precision))
        for _ in range(2)]

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    """[N, ...] of any numeric type to [N, hidden_size] float32."""
    outputs = tf.cast(observations, tf.float32)
    outputs = tf.reshape(outputs, [-1, math.prod(outputs.shape[1:])])
    for layer in self._layers:
      outputs = layer(outputs)
    return tf.cast(outputs, tf.float32)


TORSOS = {'shallow': ShallowTorso, 'deep': DeepTorso, 'mlp': MLPTorso}


class LSTMState(NamedTuple):
  """float32 [B, size] each."""
  hidden: tf.Tensor
  cell: tf.Tensor


class LSTMCore(tf.Module):
  """An LSTM over time that forgets where an episode starts.

  Keras's LSTM cannot reset its state within a sequence, hence our own. The
  product with the inputs is taken for all steps at once (section 3.1), so the
  kernel is in two parts, for the inputs and for the hidden state. Both start as
  if they were one.
  """

  def __init__(self, size: int):
    """Makes no layers yet: how they start depends on the number of inputs.

    Args:
      size: units.
    """
    super().__init__()
    self._size = size
    self._input_gates = None
    self._hidden_gates = None

  def _make_layers(self, num_inputs: int) -> None:
    num_gates = 4 * self._size
    initializer = glorot_uniform(num_inputs + self._size, num_gates)
    self._input_gates = tf.keras.layers.Dense(
        num_gates, kernel_initializer=initializer)
    self._hidden_gates = tf.keras.layers.Dense(
        num_gates, use_bias=False, kernel_initializer=initializer)

  def initial_state(self, batch_size) -> LSTMState:
    """Zeros, [batch_size, size] each."""
    zeros = tf.zeros([batch_size, self._size])
    return LSTMState(zeros, zeros)

  def __call__(self, inputs: tf.Tensor, resets: tf.Tensor,
               state: LSTMState) -> Tuple[tf.Tensor, LSTMState]:
    """Runs over time.

    Args:
      inputs: float32 [T, B, F].
      resets: bool [T, B], True where x_t begins an episode: the state before
        that step is replaced by zeros.
      state: before the first step.

    Returns:
      Outputs [T, B, size] and the state after the last step.
    """
    if self._input_gates is None:
      self._make_layers(inputs.shape[-1])
    gates = self._input_gates(inputs)
    keeps = 1. - tf.cast(resets, tf.float32)[..., tf.newaxis]
    num_steps = inputs.shape[0]
    if num_steps is not None and num_steps <= _MAX_STATIC_STEPS:
      outputs = []
      for t in range(num_steps):
        state = self._step(state, (gates[t], keeps[t]))
        outputs.append(state.hidden)
      return tf.stack(outputs), state
    states = tf.scan(self._step, (gates, keeps), initializer=state)
    return states.hidden, tf.nest.map_structure(lambda s: s[-1], states)

  def _step(self, state: LSTMState, gates_and_keep) -> LSTMState:
    gates, keep = gates_and_keep
    # A NaN that came from an environment ends with its episode.
    hidden, cell = (tf.math.multiply_no_nan(s, keep) for s in state)
    gates += self._hidden_gates(hidden)
    i, new, forget, o = tf.split(gates, 4, axis=-1)
    # The bias of 1 keeps memory at first (Jozefowicz et al. 2015).
    cell = tf.sigmoid(forget + 1.) * cell + tf.sigmoid(i) * tf.tanh(new)
    return LSTMState(tf.sigmoid(o) * tf.tanh(cell), cell)


class InstructionEncoder(tf.Module):
  """Figure 3's language channel: embedded words, and an LSTM over them."""

  # "Embedding 20", "LSTM 64" in the figure.
  _EMBEDDING_SIZE = 20
  SIZE = 64

  def __init__(self, compiled: bool = False):
    """Makes the layers.

    Args:
      compiled: with XLA, which cannot have what makes this fast: of equal
        instructions, as nearly all of an unroll are, one is read.
    """
    super().__init__()
    self._compiled = compiled
    # Row 0 is of no use.
    self._embedding = tf.keras.layers.Embedding(
        word_ids.NUM_WORD_IDS + 1, self._EMBEDDING_SIZE,
        embeddings_initializer=_standard_normal)
    self._lstm = LSTMCore(self.SIZE)

  def __call__(self, word_ids: tf.Tensor) -> tf.Tensor:
    """Reads each instruction by itself.

    Args:
      word_ids: int32 [N, L], zeros after the last word.

    Returns:
      float32 [N, SIZE], the LSTM's output at the last word; zeros where there
      is none.
    """
    if self._compiled:
      return self._read(word_ids)
    # An update of an 'mlp' agent on 32 unrolls of 20 steps takes 9 ms; to read
    # 16 words with it, 20 more, and without this 170 more.
    unique = tf.raw_ops.UniqueV2(x=word_ids, axis=[0])
    return tf.gather(
        self._read(tf.ensure_shape(unique.y, [None, word_ids.shape[1]])),
        unique.idx)

  def _read(self, word_ids: tf.Tensor) -> tf.Tensor:
    length = word_ids.shape[1]
    num_words = tf.math.count_nonzero(word_ids, axis=1, dtype=tf.int32)
    # To [L, N]: the core's time are words here. It reads on into the padding,
    # which changes nothing of what was before.
    words = self._embedding(tf.transpose(word_ids))
    outputs, _ = self._lstm(words, tf.zeros(tf.shape(words)[:2], tf.bool),
                            self._lstm.initial_state(tf.shape(words)[1]))
    # None of them for -1.
    is_last = tf.one_hot(num_words - 1, length, axis=0)
    return tf.reduce_sum(outputs * is_last[..., tf.newaxis], axis=0)
