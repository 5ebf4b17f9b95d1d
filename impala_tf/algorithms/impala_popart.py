"""IMPALA with values normalised by task (Hessel et al. 2018).

Source: "Multi-task Deep Reinforcement Learning with PopArt", arXiv:1809.04474.
Which task an unroll is of picks its row of the moments and its output of the
baseline's head, here and nowhere else: policy and torso are not told.
"""

from typing import Any

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.maths import popart


def loss(agent: agent_lib.Agent, unroll: types.Unroll,
         config: config_lib.ImpalaConfig) -> types.LossOutput:
  """IMPALA's, with the errors of each task in units of its sigma.

  V-trace works on values as they are, sigma n + mu. The baseline is trained on
  normalised ones, ((v_t - mu) / sigma - n)^2, and the policy gradient's
  advantage is divided by sigma: no task counts for more because it pays more.
  The entropy bonus stays as it is.

  Args:
    agent: has `popart`.
    unroll: as for `impala.loss`.
    config: likewise.

  Returns:
    `LossOutput`; its totals are for `after_step`.
  """
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action,
                         unroll.core_state)
  moments, task = agent.popart.moments, unroll.level_index
  scales = popart.scale(moments)
  # (v_t - mu) / sigma - n is (v_t - V) / sigma.
  output, targets = impala.loss_and_targets(
      outputs._replace(
          baseline=popart.denormalise(outputs.baseline, moments, task)),
      agent.distribution, unroll, config, value_scale=tf.gather(scales, task))
  metrics = {**output.metrics,
             'popart/scale_min': tf.reduce_min(scales),
             'popart/scale_max': tf.reduce_max(scales)}
  return types.LossOutput(
      output.loss, metrics,
      popart.totals(targets.vs, targets.mask, task, moments))


def after_step(agent: agent_lib.Agent, totals: Any,
               config: config_lib.ImpalaConfig) -> None:
  """Moves the moments towards the targets that the step has learned from.

  So a step uses what the steps before it have seen, where algorithm 1 of van
  Hasselt et al. 2016 looks at its own targets first: each update is then one
  pass through the network and one reduction over replicas.

  Args:
    agent: has `popart`.
    totals: `popart.Totals` of the whole batch.
    config: of the loss.
  """
  agent.popart.update(totals, config.popart_step_size)
