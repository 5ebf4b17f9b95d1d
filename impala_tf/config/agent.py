"""Options of the network."""

import dataclasses

from impala_tf.config import fields

# Torsos of images, whose pixels they divide by 255.
IMAGE_TORSOS = ('shallow', 'nature', 'deep', 'linear_convolutions', 'grid')


@dataclasses.dataclass(frozen=True)
class AgentConfig(fields.Section):
  """The network (figure 3 of the paper).

  Attributes:
    torso: 'shallow', 'nature' or 'deep' for images, 'grid' for small ones,
      'mlp' for anything else, 'auto' for whichever fits the observations.
      docs/networks_and_algorithms.md has others, and how to register yours.
    use_lstm: put an LSTM between the torso and the heads.
    hidden_size: units of the torso's last layer (of each layer of 'mlp').
    lstm_size: units of the LSTM.
    torso_gain: factor of the standard deviation of the torso's initial kernels.
      1 is that of the paper's code; sqrt(2) keeps the variance behind ReLUs (He
      et al. 2015). Torsos that you register ignore it.
    instruction_length: words of an instruction that are read, by an LSTM beside
      the torso; longer ones are cut. 0 for agents that read none. All of
      DeepMind Lab is within 16, BabyAI with two tasks in a sentence is not.
    normalise_observations: subtract the running mean of vectors, and divide by
      their running standard deviation; images stay as they are.
  """
  torso: str = fields.option('shallow', source='figure 3')
  use_lstm: bool = fields.option(False, source='figure 3')
  hidden_size: int = fields.option(256, at_least=1, source='figure 3')
  lstm_size: int = fields.option(256, at_least=1, source='figure 3')
  torso_gain: float = fields.option(1.0, above=0, source='published code')
  instruction_length: int = fields.option(
      0, at_least=0, unit='words', source='figure 3')
  normalise_observations: bool = fields.option(False)

  @property
  def sees_pictures(self) -> bool:
    """Whether the torso reads images of bytes; also true for 'auto'."""
    return self.torso in (*IMAGE_TORSOS, 'auto')
