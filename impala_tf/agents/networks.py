"""Networks of the agent: torsos, LSTM, language channel (figure 3, appendix G).

Weights start as in the paper's published code (deepmind/scalable_agent,
`experiment.py`), which leaves them to the libraries that it uses:

- Convolutions and dense layers: truncated normal of the standard deviation
  1/sqrt(fan-in), in torsos times a gain, as Sonnet 1's.
- Embedding of words: standard normal, as Sonnet 1's Embed.
- LSTMs: Glorot uniform over inputs and hidden state together, as TensorFlow
  1's LSTMBlockCell. A 1 is added to the bias of the forget gate.
- Biases: zero.
"""

import functools
import math
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import layers
from impala_tf.agents import torsos
from impala_tf.envs import word_ids

# Up to this many steps the graph of the LSTM is unrolled, which runs faster.
# With more steps a loop in the graph saves more time in compilation.
_MAX_STATIC_STEPS = 32


class SequentialTorso(tf.Module):
  """A torso of layers, each of which reads the outputs of the layer before."""

  def __init__(self, *sequence: Callable[[tf.Tensor], tf.Tensor]):
    super().__init__()
    self._layers = list(sequence)

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    """Maps observations [N, ...] to float32 [N, F]."""
    for layer in self._layers:
      observations = layer(observations)
    return tf.cast(observations, tf.float32)


class MLPTorso(SequentialTorso):
  """A torso of dense layers, for observations other than images."""

  def __init__(self, num_layers: int, hidden_size: int, **options: Any):
    super().__init__(*(layers.Linear(hidden_size, tf.nn.relu, **options)
                       for _ in range(num_layers)))

  def __call__(self, observations: tf.Tensor) -> tf.Tensor:
    return super().__call__(layers.flatten(tf.cast(observations, tf.float32)))


class DeepTorso(tf.Module):
  """The torso of figure 3, right: 15 convolutions in 3 residual sections."""

  def __init__(self, hidden_size: int, **options: Any):
    super().__init__()
    self._sections = []
    for i, channels in enumerate((16, 32, 32)):
      conv = layers.PixelConv2D if i == 0 else layers.Conv2D
      self._sections.append((
          conv(channels, 3, 1, padding='SAME', **options),
          # Here, since names of variables in checkpoints count it.
          lambda images: tf.nn.max_pool2d(images, 3, 2, 'SAME'),
          [[layers.Conv2D(channels, 3, 1, padding='SAME', **options)
            for _ in range(2)] for _ in range(2)],
      ))
    self._linear = layers.Linear(hidden_size, tf.nn.relu, **options)

  def __call__(self, images: tf.Tensor) -> tf.Tensor:
    outputs = images
    for conv, pool, blocks in self._sections:
      outputs = pool(conv(outputs))
      for block in blocks:
        residual = outputs
        for block_conv in block:
          residual = block_conv(tf.nn.relu(residual))
        outputs += residual
    outputs = self._linear(layers.flatten(tf.nn.relu(outputs)))
    return tf.cast(outputs, tf.float32)


def _convolutions(sizes: Sequence[tuple[int, int, int]], hidden_size: int,
                  padding: str = 'VALID', **options: Any) -> SequentialTorso:
  """Makes a torso: convolutions (channels, size, stride), a dense layer."""
  first, *others = sizes
  return SequentialTorso(
      layers.PixelConv2D(*first, tf.nn.relu, padding=padding, **options),
      *(layers.Conv2D(*other, tf.nn.relu, padding=padding, **options)
        for other in others),
      layers.flatten,
      layers.Linear(hidden_size, tf.nn.relu, **options))


def _linear_convolutions(hidden_size: int, **options: Any) -> SequentialTorso:
  """Makes two convolutions "without any non-linearity or pooling".

  A3C encodes images so for continuous actions (Mnih et al. 2016, section 9),
  before an LSTM. The paper gives no sizes; these are the shallow torso's.
  """
  del hidden_size  # There is no dense layer.
  return SequentialTorso(
      layers.PixelConv2D(16, 8, 4, **options),
      layers.Conv2D(32, 4, 2, **options),
      layers.flatten)


TORSOS: dict[str, Callable[..., tf.Module]] = {
    # Figure 3, left. Mnih et al. 2016 have it, too, in section 8.
    'shallow': functools.partial(_convolutions, ((16, 8, 4), (32, 4, 2))),
    # Mnih et al. 2015. A3C has it on the 57 games (Mnih et al. 2016, section
    # 5.1), as IMPALA's shallow agents have there (section 5.3.2); its last
    # layer has 512 units.
    'nature': functools.partial(
        _convolutions, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    'deep': DeepTorso,
    'linear_convolutions': _linear_convolutions,
    # Worlds of a few cells, in which strides would lose the neighbours.
    'grid': functools.partial(
        _convolutions, ((16, 3, 1), (32, 3, 1)), padding='SAME'),
    'mlp': functools.partial(MLPTorso, 2),
    # A3C's for states, with 200 units (Mnih et al. 2016, section 9).
    'dense': functools.partial(MLPTorso, 1),
}


def make_torso(name: str, hidden_size: int, precision: str = 'float32',
               gain: float = 1.0) -> tf.Module:
  """Makes the torso of a name, which is built in or registered by the user.

  The user's torsos draw their own weights, without `gain`. Raises ConfigError
  if nobody has registered the name, or the user's torso is no `tf.Module`.
  """
  torsos.check(name)
  if name in TORSOS:
    return TORSOS[name](
        hidden_size, precision=precision, initial_weights=functools.partial(
            layers.fan_in_truncated_normal, gain=gain))
  torso = torsos.OWN[name](hidden_size, precision)
  if not isinstance(torso, tf.Module):
    raise config_lib.ConfigError(
        f'the torso {name!r} must be a tf.Module, so that its variables are '
        f'found, but is of type {type(torso).__name__}')
  return torso


def checked_features(name: str, features: tf.Tensor) -> tf.Tensor:
  """Returns a torso's output; raises ConfigError if it is not [N, F]."""
  if (features.dtype == tf.float32 and features.shape.rank == 2
      and features.shape[1] is not None):
    return features
  raise config_lib.ConfigError(
      f'the torso {name!r} must return float32 [N, F], but returned '
      f'{features.dtype.name} {features.shape}')


class LSTMState(NamedTuple):
  """The state of an LSTM between two steps, float32 [B, size] each."""
  hidden: tf.Tensor
  cell: tf.Tensor


class LSTMCore(tf.Module):
  """An LSTM whose state is reset as an episode begins.

  The product with the inputs is computed for all steps at once (section 3.1).
  So the kernel is in two parts, for the inputs and for the hidden state, which
  start as if they were one.
  """

  def __init__(self, size: int):
    super().__init__()
    self._size = size
    # Made at the first call.
    self._input_gates: Any = None
    self._hidden_gates: Any = None

  @property
  def input_kernel(self) -> tf.Variable:
    """Weights [F, 4 size] of the inputs; they exist after the first call."""
    return self._input_gates.kernel

  def initial_state(self, batch_size) -> LSTMState:
    """Makes the state before an episode's first step: zeros."""
    zeros = tf.zeros([batch_size, self._size])
    return LSTMState(zeros, zeros)

  def __call__(self, inputs: tf.Tensor, resets: tf.Tensor,
               state: LSTMState) -> tuple[tf.Tensor, LSTMState]:
    """Reads inputs [T, B, F]; returns outputs [T, B, size] and the last state.

    Zeros replace the state before steps for which `resets`, bool [T, B], is
    True.
    """
    if self._input_gates is None:
      num_gates = 4 * self._size
      # Glorot and Bengio 2010, equation 16: the outputs of both are added up.
      limit = math.sqrt(6 / (inputs.shape[-1] + self._size + num_gates))

      def initial_weights(shape, dtype):
        return tf.random.uniform(shape, -limit, limit, dtype)

      self._input_gates = layers.Linear(
          num_gates, initial_weights=initial_weights)
      self._hidden_gates = layers.Linear(
          num_gates, initial_weights=initial_weights, use_bias=False)
    gates = self._input_gates(inputs)
    keeps = 1. - tf.cast(resets, tf.float32)[..., tf.newaxis]
    num_steps = inputs.shape[0]
    if num_steps is not None and num_steps <= _MAX_STATIC_STEPS:
      outputs = []
      # In graphs, gradients of steps are added up in the order of ops' names,
      # which the scope makes the same in every network.
      with tf.name_scope('steps'):
        for t in range(num_steps):
          state = self._step(state, (gates[t], keeps[t]))
          outputs.append(state.hidden)
      return tf.stack(outputs), state
    states = tf.scan(self._step, (gates, keeps), initializer=state)
    return states.hidden, tf.nest.map_structure(lambda s: s[-1], states)

  def _step(self, state: LSTMState, gates_and_keep) -> LSTMState:
    gates, keep = gates_and_keep
    # `multiply_no_nan` ends a NaN of an environment with its episode.
    hidden, cell = (tf.math.multiply_no_nan(s, keep) for s in state)
    gates += self._hidden_gates(hidden)
    i, new, forget, o = tf.split(gates, 4, axis=-1)
    # The bias of 1 keeps memory at first (Jozefowicz et al. 2015).
    cell = tf.sigmoid(forget + 1.) * cell + tf.sigmoid(i) * tf.tanh(new)
    return LSTMState(tf.sigmoid(o) * tf.tanh(cell), cell)


class InstructionEncoder(tf.Module):
  """The language channel of figure 3: embedded words and an LSTM over them."""

  # "Embedding 20", "LSTM 64" in the figure.
  _EMBEDDING_SIZE = 20
  SIZE = 64

  def __init__(self, compiled: bool = False):
    """Makes the layers; `compiled` says whether XLA compiles them.

    XLA cannot read equal instructions only once. That saves most of the time,
    since an unroll has few different ones.
    """
    super().__init__()
    self._compiled = compiled
    # Row 0 is that of padding and is not used.
    self._embedding = layers.Embedding(
        word_ids.NUM_WORD_IDS + 1, self._EMBEDDING_SIZE)
    self._lstm = LSTMCore(self.SIZE)

  def __call__(self, word_ids: tf.Tensor) -> tf.Tensor:
    """Encodes instructions, int32 [N, L] with zeros after the last word.

    Returns the LSTM's output there, float32 [N, SIZE]; zeros without words.
    """
    if self._compiled:
      return self._read(word_ids)
    # Reading all would take several times as long as the rest of an update.
    unique = tf.raw_ops.UniqueV2(x=word_ids, axis=[0])
    return tf.gather(
        self._read(tf.ensure_shape(unique.y, [None, word_ids.shape[1]])),
        unique.idx)

  def _read(self, word_ids: tf.Tensor) -> tf.Tensor:
    num_words = tf.math.count_nonzero(word_ids, axis=1, dtype=tf.int32)
    # [L, N]: words take the place of time. The LSTM reads the padding, too,
    # which does not change its earlier outputs.
    words = self._embedding(tf.transpose(word_ids))
    outputs, _ = self._lstm(words, tf.zeros(tf.shape(words)[:2], tf.bool),
                            self._lstm.initial_state(tf.shape(words)[1]))
    # An instruction without words, -1, has no last one.
    is_last = tf.one_hot(num_words - 1, word_ids.shape[1], axis=0)
    return tf.reduce_sum(outputs * is_last[..., tf.newaxis], axis=0)
