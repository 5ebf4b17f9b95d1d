"""Agents that act by values of actions instead of a policy.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), section 4.
"""

import types
from typing import Optional

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions


class QAgent(agent_lib.Agent):
  """An agent whose logits are Q(x_t, a), float32 [..., A].

  It takes the action with the highest value, or with probability `epsilon` one
  of the legal actions, uniformly. Epsilon is 0 until a worker assigns another
  value, so evaluation is greedy. The baseline head is not trained.
  """

  kind = 'q'

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, num_tasks: Optional[int] = None):
    """Makes the layers; raises ConfigError unless actions are categorical."""
    if not isinstance(distribution, distributions.Categorical):
      raise config_lib.ConfigError(
          'methods that learn values of actions are for one choice of several '
          f"actions, but there are {distribution}; set "
          "ExperimentConfig.algorithm to 'a3c' or 'impala'")
    super().__init__(distribution, config, precision, compiled, num_tasks)
    # In a namespace, where checkpoints of the agent do not find it.
    self._exploration = types.SimpleNamespace(
        epsilon=tf.Variable(0., trainable=False))

  @property
  def epsilon(self) -> tf.Variable:
    """Probability of a random action, float32 [].

    It is neither saved in checkpoints nor sent to other processes.
    """
    return self._exploration.epsilon

  def _choose(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    greedy = self.distribution.mode(logits)
    coin_seed, action_seed = tf.unstack(
        tf.random.experimental.stateless_split(seed, 2))
    explores = tf.random.stateless_uniform(
        tf.shape(greedy), coin_seed) < self.epsilon
    is_legal = logits > distributions.ILLEGAL_LOGIT
    legal = self.distribution.sample(
        tf.where(is_legal, 0., distributions.ILLEGAL_LOGIT), action_seed)
    return tf.where(explores, legal, greedy)
