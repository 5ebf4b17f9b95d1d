"""Agents that act by values of actions instead of a policy.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), section 4.
"""

from typing import Optional

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions


class _Exploration:
  """A holder of epsilon, which belongs to a worker and not to what is learned.

  It is no `tf.Module`, so that checkpoints, which take all variables they find
  in an agent, do not find it.

  Attributes:
    epsilon: float32 [], probability of a random action.
  """

  def __init__(self):
    self.epsilon = tf.Variable(0., trainable=False)


class QAgent(agent_lib.Agent):
  """An agent whose logits are Q(x_t, a), float32 [..., A].

  It takes the action with the highest value; with probability `epsilon`,
  instead, one of the legal actions, all alike. Epsilon is 0 unless a worker
  assigns another, so that whoever evaluates plays greedily. The baseline's head
  is there, as in other agents, and learns nothing.
  """

  kind = 'q'

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, num_tasks: Optional[int] = None):
    """Makes the layers, yet without variables; see `agent.Agent`.

    Raises:
      ConfigError: where actions are not a choice of one of several.
    """
    if not isinstance(distribution, distributions.Categorical):
      raise config_lib.ConfigError(
          'methods that learn values of actions are for one choice of several '
          f"actions, but there are {distribution}; set "
          "ExperimentConfig.algorithm to 'a3c' or 'impala'")
    super().__init__(distribution, config, precision, compiled, num_tasks)
    self._exploration = _Exploration()

  @property
  def epsilon(self) -> tf.Variable:
    """Probability of a random action, float32 []; `assign` changes it.

    Graphs that were traced before see the new value. It is in no checkpoint and
    is not sent to other processes.
    """
    return self._exploration.epsilon

  def _choose(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Chooses actions [B], greedily but for epsilon."""
    greedy = self._distribution.mode(logits)
    coin_seed, action_seed = tf.unstack(
        tf.random.experimental.stateless_split(seed, 2))
    explores = tf.random.stateless_uniform(
        tf.shape(greedy), coin_seed) < self.epsilon
    is_legal = logits > distributions.ILLEGAL_LOGIT
    legal = self._distribution.sample(
        tf.where(is_legal, 0., distributions.ILLEGAL_LOGIT), action_seed)
    return tf.where(explores, legal, greedy)
