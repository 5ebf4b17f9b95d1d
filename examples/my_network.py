"""A new torso: small convolutions, for pictures of a few cells.

    ./launch/train.sh examples/my_environment.gin \
        --import=examples/my_environment.py --import=examples/my_network.py \
        --gin_binding="AgentConfig.torso = 'my_torso'"

docs/networks_and_algorithms.md explains it.
"""

import tensorflow as tf

import impala_tf


@impala_tf.register_torso('my_torso')
class MyTorso(tf.Module):
  """A torso of two 3 x 3 convolutions and a dense layer."""

  def __init__(self, hidden_size, precision):
    """Makes the layers.

    Args:
      hidden_size: `AgentConfig.hidden_size`.
      precision: 'float32' or 'mixed_bfloat16', a policy of Keras.
    """
    super().__init__()
    kwargs = dict(activation='relu',
                  dtype=tf.keras.mixed_precision.Policy(precision))
    self._layers = [
        tf.keras.layers.Conv2D(16, 3, padding='same', **kwargs),
        tf.keras.layers.Conv2D(16, 3, padding='same', **kwargs),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(hidden_size, **kwargs),
    ]

  def __call__(self, observations):
    """Maps observations [N, H, W, C] to features, float32 [N, hidden_size]."""
    outputs = tf.cast(observations, tf.float32)
    for layer in self._layers:
      outputs = layer(outputs)
    return tf.cast(outputs, tf.float32)
