"""A new algorithm: IMPALA that stays near the policy that acted.

    ./launch/train.sh configs/catch.gin --import=examples/my_algorithm.py \
        --gin_binding="ExperimentConfig.algorithm = 'my_algorithm'"

docs/networks_and_algorithms.md explains it.
"""

import tensorflow as tf

import impala_tf
from impala_tf import types
from impala_tf.algorithms import impala

_KL_COST = 0.1


def loss(agent, unroll, config, hyperparameters):
  """Adds KL(behaviour policy, target policy) to IMPALA's loss.

  Args:
    agent: target policy and baseline.
    unroll: batch with leading [T+1, B].
    config: config of the run.
    hyperparameters: `hyperparameters.Present`, with the entropy cost.

  Returns:
    `types.LossOutput`.
  """
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action,
                         unroll.core_state)
  output, targets = impala.loss_and_targets(
      outputs, agent.distribution, unroll, config.impala,
      hyperparameters.entropy_cost)
  # The last step is there for its value alone.
  divergence = agent.distribution.kl_divergence(
      unroll.agent_outputs.policy_logits[:-1], outputs.policy_logits[:-1])
  kl_loss = _KL_COST * tf.reduce_sum(divergence * targets.mask, axis=0)  # [B]
  metrics = {
      **output.metrics,
      'loss/total': output.metrics['loss/total'] + kl_loss,
      'loss/kl': kl_loss,
  }
  return types.LossOutput(output.loss + tf.reduce_sum(kl_loss), metrics)


impala_tf.register_algorithm(
    'my_algorithm', impala.ALGORITHM._replace(loss=loss))
