"""Losses of the asynchronous value methods: two of one step, one of n steps.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), section 4, algorithms 1 and S2.
"""

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import algorithm
from impala_tf.maths import losses
from impala_tf.maths import n_step
from impala_tf.optimizers import hyperparameters as hyperparameters_lib


def _targets(config: config_lib.Config, effects: types.EnvOutput,
             action_values: tf.Tensor, actions: tf.Tensor, mask: tf.Tensor
             ) -> tf.Tensor:
  """Computes the targets of the config's algorithm, float32 [T, B].

  `effects` are of a_t, [T, B], as is `mask`. Q(x_t, a) of the target network
  are float32 [T+1, B, A], and a_t int32 [T+1, B].
  """
  rewards = losses.clip_rewards(effects.reward, config.impala.reward_clipping)
  discounts = effects.discount * config.impala.discount
  values = tf.reduce_max(action_values, axis=-1)
  if config.experiment.algorithm == 'n_step_q':
    return n_step.n_step_targets(
        rewards, discounts, values[-1], mask, values[:-1])
  if config.experiment.algorithm == 'one_step_sarsa':
    values = n_step.values_of_actions(action_values, actions)
  return n_step.one_step_targets(rewards, discounts, values[1:], mask)


def loss(agent: agent_lib.Agent, unroll: types.Unroll,
         config: config_lib.Config,
         hyperparameters: hyperparameters_lib.Present,
         target_agent: agent_lib.Agent) -> types.LossOutput:
  """Computes half the sum of squared errors, 1/2 sum (y_t - Q(x_t, a_t))^2.

  Sarsa's a_{t+1} include the unroll's last action, which must be the one that
  is then taken. The baseline's head has a gradient of zero.

  The algorithm of `config` decides about the targets; `target_agent` has the
  parameters theta-minus, which compute them.
  """
  del hyperparameters
  actions = unroll.agent_outputs.action
  arguments = unroll.env_outputs, actions, unroll.core_state
  outputs = agent.unroll(*arguments)
  effects, is_played = algorithm.effects(unroll)
  targets = _targets(
      config, effects, target_agent.unroll(*arguments).policy_logits, actions,
      is_played)
  values = n_step.values_of_actions(outputs.policy_logits[:-1], actions[:-1])
  unroll_losses = losses.baseline_loss(targets, values, is_played)
  return types.LossOutput(tf.reduce_sum(unroll_losses), {
      'loss/total': unroll_losses,
      'action_value': losses.masked_mean(values, is_played)})


ALGORITHM = algorithm.Algorithm(
    algorithm.makes(a3c_agents.QAgent), loss, needs_target_agent=True)
SARSA = ALGORITHM._replace(needs_last_action=True)
