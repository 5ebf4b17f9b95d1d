"""Agents whose policy and value share no parameters.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), section 9.
"""

from typing import Dict, Optional, Sequence, Tuple, Union

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions


class SeparateAgent(agent_lib.Agent):
  """A3C's agent for continuous actions: two networks, and one variance.

  Its memory is `agent.CoreState`, whose `lstm` is a pair: the policy's state
  and the value's.
  """

  kind = 'separate'

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, num_tasks: Optional[int] = None):
    """Makes the layers; raises ConfigError unless actions are continuous."""
    if not isinstance(distribution, distributions.Gaussian):
      raise config_lib.ConfigError(
          "ExperimentConfig.algorithm = 'a3c_continuous' is for continuous "
          f"actions, but there are {distribution}; set it to 'a3c'")
    distribution = distributions.SphericalGaussian(distribution.action_size)
    super().__init__(distribution, config, precision, compiled, num_tasks)
    # Its heads are not used, and so have no variables.
    self._value_network = agent_lib.Agent(
        distribution, config, precision, compiled)

  @property
  def parts(self) -> Dict[str, Sequence[tf.Variable]]:
    return {**super().parts,
            **{f'value {name}': variables
               for name, variables in self._value_network.parts.items()}}

  def initial_state(self, batch_size) -> Union[agent_lib.CoreState, Tuple[()]]:
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
