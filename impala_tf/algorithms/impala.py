"""IMPALA's loss: the V-trace actor-critic (section 4.2) and its ablations."""

import math
from typing import Callable, NamedTuple

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import algorithm
from impala_tf.maths import distributions
from impala_tf.maths import losses
from impala_tf.maths import vtrace
from impala_tf.optimizers import hyperparameters as hyperparameters_lib


class Selection(NamedTuple):
  """The part of a batch that counts in its loss."""
  # bool [T, B], steps to learn from; others are masked like a time limit.
  is_relevant: tf.Tensor
  # bool [B], unrolls whose policies' entropy is rewarded.
  has_entropy_cost: tf.Tensor
  metrics: dict[str, tf.Tensor]  # float32 [B], for logs only.


SelectFn = Callable[[agent_lib.NetworkOutput, types.Unroll], Selection]


def loss(agent: agent_lib.Agent, unroll: types.Unroll,
         config: config_lib.Config,
         hyperparameters: hyperparameters_lib.Present,
         select: SelectFn | None = None) -> types.LossOutput:
  """Sums up the three losses of section 4.2.

  `select` returns a `Selection` of the batch; None: all of it counts. For the
  other arguments see `algorithm.Algorithm`.
  """
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action,
                         unroll.core_state)
  return loss_and_targets(outputs, agent.distribution, unroll, config.impala,
                          hyperparameters.entropy_cost, select=select)[0]


ALGORITHM = algorithm.Algorithm(algorithm.makes(agent_lib.Agent), loss)
# Without a correction the loss is A3C's, here for its two networks (Mnih et al.
# 2016, section 9).
A3C_CONTINUOUS = algorithm.Algorithm(
    algorithm.makes(a3c_agents.SeparateAgent), loss)


class Targets(NamedTuple):
  """Targets that the baseline is trained towards."""
  vs: tf.Tensor  # float32 [T, B], as the correction has them, no gradient.
  # float32 [T, B], 1 for each target; 0 if a time limit has cut the episode off
  # or the step is not relevant.
  mask: tf.Tensor


def loss_and_targets(
    outputs: agent_lib.NetworkOutput, distribution: distributions.Distribution,
    unroll: types.Unroll, config: config_lib.ImpalaConfig,
    entropy_cost: float | tf.Tensor, value_scale: float | tf.Tensor = 1.,
    select: SelectFn | None = None) -> tuple[types.LossOutput, Targets]:
  """Computes the losses from the network's outputs, [T+1, B], for a batch.

  `entropy_cost` is the weight of the entropy bonus, `value_scale`, float32 [B],
  the unit of values and advantages in the losses. For `select` see `loss`.
  """
  # x_T is there for its value alone, which is the learner's, not the actor's.
  # Rewards and discounts of actions at x_t, t < T, are recorded with x_{t+1}.
  bootstrap_value = outputs.baseline[-1]
  target_logits, values = tf.nest.map_structure(
      lambda t: t[:-1], (outputs.policy_logits, outputs.baseline))
  actions, behaviour_logits = tf.nest.map_structure(
      lambda t: t[:-1], tuple(unroll.agent_outputs))
  effects, is_played = algorithm.effects(unroll)
  selection = select(outputs, unroll) if select else Selection(
      tf.ones_like(is_played), tf.ones_like(is_played[0]), {})
  mask = tf.cast(selection.is_relevant & is_played, tf.float32)
  log_probs = distribution.log_prob(target_logits, actions)
  log_rhos = log_probs - distribution.log_prob(behaviour_logits, actions)
  returns = vtrace.corrected_returns(
      config.correction, log_rhos, config.clip_rho_threshold,
      config.clip_pg_rho_threshold, config.clip_c_threshold,
      discounts=effects.discount * config.discount,
      rewards=losses.clip_rewards(effects.reward, config.reward_clipping),
      values=values, bootstrap_value=bootstrap_value, lambda_=config.lambda_,
      mask=mask, pg_bootstrap=config.pg_bootstrap)

  policy_gradient_loss = losses.policy_gradient_loss(
      log_probs, returns.pg_advantages / value_scale, mask,
      vtrace.LOG_EPSILON if config.correction == 'epsilon' else 0.)
  scaled = returns.vs / value_scale, values / value_scale
  baseline_loss = losses.baseline_loss(*scaled, mask)
  entropies = distribution.entropy(target_logits)
  entropy_loss = losses.entropy_loss(
      entropies, mask * tf.cast(selection.has_entropy_cost, tf.float32))
  unroll_losses = (policy_gradient_loss + config.baseline_cost * baseline_loss +
                   entropy_cost * entropy_loss)
  if unroll.origin and not isinstance(unroll.origin.weights, tuple):
    unroll_losses *= unroll.origin.weights
  return types.LossOutput(tf.reduce_sum(unroll_losses), {
      'loss/total': unroll_losses,
      'loss/policy_gradient': policy_gradient_loss,
      'loss/baseline': baseline_loss,
      'loss/entropy': entropy_loss,
      **_entropy_metrics(distribution, entropies, unroll, is_played),
      'value_size': losses.masked_mean(tf.abs(values), is_played),
      'explained_variance': _explained_variance(*scaled, mask),
      **selection.metrics,
      **_off_policy_metrics(
          log_rhos, distribution.kl_divergence(behaviour_logits, target_logits),
          config.clip_rho_threshold, is_played),
  }), Targets(returns.vs, mask)


def _explained_variance(vs: tf.Tensor, values: tf.Tensor,
                        mask: tf.Tensor) -> tf.Tensor:
  """Returns 1 - Var[vs - V] / Var[vs]: 1 if V is exact, 0 if V is constant.

  Steps without a target do not count. It is 0 if all targets are equal, or
  there are none.
  """
  def variance(x):
    mean = losses.masked_mean(x, mask, axis=None)
    return losses.masked_mean(tf.square(x - mean), mask, axis=None)

  total = variance(vs)
  return tf.where(
      total > 0, 1. - tf.math.divide_no_nan(variance(vs - values), total), 0.)


def _entropy_metrics(distribution, entropies, unroll, is_played):
  """Computes the mean entropy, and its share of the largest possible.

  Continuous actions have no largest; the share is NaN if no step has a choice.
  """
  entropy = losses.masked_mean(entropies, is_played)
  largest = sum(map(math.log, distribution.num_values))
  if not largest:
    return {'entropy': entropy}
  legal = unroll.env_outputs.action_mask
  if isinstance(legal, tuple):  # All actions are.
    return {'entropy': entropy, 'entropy_share': entropy / largest}
  most = tf.add_n([
      tf.math.log(tf.reduce_sum(tf.cast(choice, tf.float32), axis=-1))
      for choice in tf.split(legal[:-1], distribution.num_values, axis=-1)])
  return {'entropy': entropy,
          'entropy_share': losses.masked_mean(entropies, is_played, axis=None)
                           / losses.masked_mean(most, is_played, axis=None)}


def _off_policy_metrics(log_rhos, kl_divergences, threshold, is_played):
  rhos = tf.exp(log_rhos)
  clipped = tf.zeros_like(rhos)
  if threshold is not None:
    # Equal policies give ratios a rounding error off 1, which is no clipping.
    clipped = tf.cast(rhos > threshold * 1.001, tf.float32)
  return {'rho/mean': losses.masked_mean(rhos, is_played),
          'rho/clipped_share': losses.masked_mean(clipped, is_played),
          'kl_behaviour_target': losses.masked_mean(kl_divergences, is_played)}
