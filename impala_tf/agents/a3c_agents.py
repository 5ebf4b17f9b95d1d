"""Agents of Mnih et al. 2016 (arXiv:1602.01783v2).

They act by values of actions (section 4), or have separate networks for policy
and value (section 9).
"""

import types as python_types
from typing import Any, Sequence

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions


class QAgent(agent_lib.Agent):
  """An agent whose logits are Q(x_t, a), float32 [..., A].

  It takes the action with the highest value, or with probability `epsilon` one
  of the legal actions, uniformly. Epsilon is 0 until a worker assigns another
  value, so evaluation is greedy. The baseline head is not trained.
  """

  kind = 'q'

  def __init__(self, distribution: distributions.Distribution, *args: Any,
               **options: Any):
    """Makes the layers; raises ConfigError unless actions are categorical."""
    if not isinstance(distribution, distributions.Categorical):
      raise config_lib.ConfigError(
          'methods that learn values of actions are for one choice of several '
          f"actions, but there are {distribution}; set "
          "ExperimentConfig.algorithm to 'a3c' or 'impala'")
    super().__init__(distribution, *args, **options)
    # In a namespace, where checkpoints of the agent do not find it.
    self._exploration = python_types.SimpleNamespace(
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


class SeparateAgent(agent_lib.Agent):
  """A3C's agent for continuous actions: two networks, and one variance.

  Its memory is `agent.CoreState`, whose `lstm` is a pair: the policy's state
  and the value's.
  """

  kind = 'separate'

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, **options: Any):
    """Makes the layers; raises ConfigError unless actions are continuous."""
    if not isinstance(distribution, distributions.Gaussian):
      raise config_lib.ConfigError(
          "ExperimentConfig.algorithm = 'a3c_continuous' is for continuous "
          f"actions, but there are {distribution}; set it to 'a3c'")
    distribution = distributions.SphericalGaussian(distribution.action_size)
    super().__init__(distribution, config, precision, compiled, **options)
    # Its heads are not used, and so have no variables.
    self._value_network = agent_lib.Agent(
        distribution, config, precision, compiled)

  @property
  def parts(self) -> dict[str, Sequence[tf.Variable]]:
    return {**super().parts,
            **{f'value {name}': variables
               for name, variables in self._value_network.parts.items()}}

  def initial_state(self, batch_size) -> agent_lib.CoreState | tuple[()]:
    state = super().initial_state(batch_size)
    value_state = self._value_network.initial_state(batch_size)
    if not (state and value_state):
      return ()
    return state._replace(lstm=(state.lstm, value_state.lstm))

  def _make_encoders(self, observation_spec: dm_env.specs.Array,
                     num_features: int) -> None:
    super()._make_encoders(observation_spec, num_features)
    self._value_network._make_encoders(observation_spec, num_features)
    self._value_network.normaliser = self.normaliser

  def _forward(self, env_outputs: types.EnvOutput, last_actions, core_state):
    policy_state, value_state = core_state.lstm if core_state else (None, None)
    policy_features, policy_state = self._features(
        env_outputs, last_actions, policy_state)
    value_features, value_state = self._value_network._features(
        env_outputs, last_actions, value_state)
    return (self._heads(env_outputs, policy_features, value_features),
            (policy_state, value_state))
