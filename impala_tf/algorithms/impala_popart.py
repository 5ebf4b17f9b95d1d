"""IMPALA with values normalised by task (Hessel et al. 2018).

Source: "Multi-task Deep Reinforcement Learning with PopArt", arXiv:1809.04474.
An unroll's task selects its row of the moments and its output of the baseline's
head, and nothing else: policy and torso do not see the task.
"""

from typing import Any

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala
from impala_tf.maths import distributions
from impala_tf.maths import popart
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.suites import levels as levels_lib


def make_agent(config: config_lib.Config,
               distribution: distributions.Distribution, precision: str,
               compiled: bool) -> agent_lib.Agent:
  """Makes an agent with a value for each level."""
  return agent_lib.Agent(
      distribution, config.agent, precision, compiled,
      num_tasks=len(levels_lib.expand(config.environment.level)))


def loss(agent: agent_lib.Agent, unroll: types.Unroll,
         config: config_lib.Config,
         hyperparameters: hyperparameters_lib.Present,
         select: impala.SelectFn | None = None) -> types.LossOutput:
  """Computes IMPALA's loss with each task's errors in units of its sigma.

  V-trace works on values as they are, sigma n + mu. The baseline is trained on
  normalised ones, ((v_t - mu) / sigma - n)^2, and the policy gradient's
  advantage is divided by sigma: no task counts for more because it pays more.
  The entropy bonus stays as it is.

  Arguments are those of `impala.loss`; the agent has `popart`. The result's
  totals, of selected steps, are for `after_step`.
  """
  assert agent.popart is not None  # See `make_agent`.
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action,
                         unroll.core_state)
  moments, task = agent.popart.moments, unroll.level_index
  scales = popart.scale(moments)
  # (v_t - mu) / sigma - n is (v_t - V) / sigma.
  output, targets = impala.loss_and_targets(
      outputs._replace(
          baseline=popart.denormalise(outputs.baseline, moments, task)),
      agent.distribution, unroll, config.impala, hyperparameters.entropy_cost,
      value_scale=tf.gather(scales, task), select=select)
  return types.LossOutput(
      output.loss, {**output.metrics,
                    'popart/scale_min': tf.reduce_min(scales),
                    'popart/scale_max': tf.reduce_max(scales)},
      popart.totals(targets.vs, targets.mask, task, moments))


def after_step(agent: agent_lib.Agent, totals: Any,
               config: config_lib.Config) -> None:
  """Moves the moments towards the targets that the step has learned from.

  So a step uses the moments of the steps before it. Algorithm 1 of van Hasselt
  et al. 2016 includes the step's own targets first. Here each update needs only
  one pass through the network and one reduction over replicas.
  """
  # See `make_agent` and, for the other, the table of algorithms.
  assert agent.popart is not None and config.impala.popart_step_size is not None
  agent.popart.update(totals, config.impala.popart_step_size)


ALGORITHM = algorithm.Algorithm(make_agent, loss, after_step)
