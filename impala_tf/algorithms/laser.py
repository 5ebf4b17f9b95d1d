"""LASER: IMPALA with a trust region over the behaviour policies.

Source: Schmitt et al. 2020, "Off-Policy Actor-Critic with Shared Experience
Replay", arXiv:1909.11583. If most of a batch is replayed, V-trace's policy
gradient follows the policy that its clipping implies, not the one that learns.
So a step whose implied policy is far from the target policy is masked like a
time limit: V-trace bootstraps from its value. All else is as in IMPALA, or
PopArt.
"""

import functools

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala
from impala_tf.algorithms import impala_popart
from impala_tf.maths import distributions
from impala_tf.maths import trust_region
from impala_tf.optimizers import hyperparameters as hyperparameters_lib


def _base(config: config_lib.Config) -> algorithm.Algorithm:
  if config.impala.popart_step_size is None:
    return impala.ALGORITHM
  return impala_popart.ALGORITHM


def make_agent(config: config_lib.Config,
               distribution: distributions.Distribution, precision: str,
               compiled: bool) -> agent_lib.Agent:
  """Makes IMPALA's agent, with PopArt if `popart_step_size` is not None.

  Raises ConfigError if the implied policy of such actions has no closed form.
  """
  is_categorical = isinstance(distribution, distributions.Categorical)
  if config.laser.trust_region == 'implied' and not is_categorical:
    raise config_lib.ConfigError(
        "LaserConfig.trust_region = 'implied' is for one choice of several "
        f"actions, but there are {distribution}; set it to 'behaviour'")
  return _base(config).make_agent(config, distribution, precision, compiled)


def loss(agent: agent_lib.Agent, unroll: types.Unroll,
         config: config_lib.Config, hyperparameters: hyperparameters_lib.Present
        ) -> types.LossOutput:
  """Computes IMPALA's loss over the steps within the trust region.

  This is algorithm 1 of the supplement, with section 2.3's policy gradient: as
  printed it lacks a minus sign and applies the clipped ratio twice.
  """
  return _base(config).loss(
      agent, unroll, config, hyperparameters,
      select=functools.partial(select, agent.distribution, config))


def select(distribution: distributions.Distribution, config: config_lib.Config,
           outputs: agent_lib.NetworkOutput, unroll: types.Unroll
           ) -> impala.Selection:
  """Selects steps within the trust region, and unrolls with an entropy bonus.

  Fresh unrolls are tested as replayed ones are (supplement, algorithm 1). No
  gradient flows through the selection. `outputs` and `unroll` are [T+1, B].
  """
  target_logits = tf.stop_gradient(outputs.policy_logits[:-1])
  behaviour_logits = unroll.agent_outputs.policy_logits[:-1]
  if config.laser.trust_region == 'implied':
    name = 'kl_implied'
    divergences = trust_region.kl_to_implied(
        target_logits, behaviour_logits, config.impala.clip_rho_threshold)
  else:
    name = 'kl_target_behaviour'
    divergences = distribution.kl_divergence(target_logits, behaviour_logits)
  is_relevant = trust_region.is_relevant(divergences, config.laser.threshold)
  has_entropy_cost = tf.ones_like(unroll.level_index, tf.bool)
  if unroll.origin and not config.laser.entropy_of_replayed:
    has_entropy_cost = ~unroll.origin.is_replayed
  return impala.Selection(is_relevant, has_entropy_cost, {
      'relevant_share': tf.reduce_mean(
          tf.cast(is_relevant, tf.float32), axis=0),
      name: tf.reduce_mean(divergences, axis=0)})


ALGORITHM = algorithm.Algorithm(
    make_agent, loss, lambda agent, totals, config: (
        _base(config).after_step(agent, totals, config)))
