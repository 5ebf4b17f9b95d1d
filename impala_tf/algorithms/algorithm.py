"""The interface of a learning algorithm."""

from typing import Any, Callable, NamedTuple

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions

MakeAgentFn = Callable[
    [config_lib.Config, distributions.Distribution, str, bool], agent_lib.Agent]
LossFn = Callable[..., types.LossOutput]  # Arguments: see `Algorithm`.
AfterStepFn = Callable[[agent_lib.Agent, Any, config_lib.Config], None]


def makes(kind: type[agent_lib.Agent]) -> MakeAgentFn:
  """Returns a `make_agent` that constructs `kind`, a class of agents."""
  return lambda config, distribution, precision, compiled: kind(
      distribution, config.agent, precision, compiled)


def effects(unroll: types.Unroll) -> tuple[types.EnvOutput, tf.Tensor]:
  """Returns what a_0 to a_{T-1} led to, and whether they were played.

  Both [T, B]. The reset after a time limit (discount > 0) ignores its action.
  """
  after = tf.nest.map_structure(
      lambda t: t[1:], unroll.env_outputs._replace(observation=()))
  return after, (after.step_type != int(dm_env.StepType.FIRST)) | (
      after.discount == 0)


class Algorithm(NamedTuple):
  """A learning algorithm, by the parts in which algorithms differ.

  Attributes:
    make_agent: function of the config, the policy's distribution, the precision
      of the torso ('float32', 'mixed_bfloat16' or 'bfloat16', see `Agent`) and
      whether XLA compiles it; returns an agent that is not built yet.
    loss: function of the agent, a batch of unrolls with leading [T+1, B] and
      frames re-stacked, the config and the hyper-parameters
      (`hyperparameters.Present`); returns `types.LossOutput`.
    after_step: function of the agent with its new parameters, the loss's totals
      of the whole batch, and the config, which every replica calls.
    needs_target_agent: whether `loss` has a further argument, `target_agent`.
      It is of the same `make_agent`, and its older parameters give the targets.
    needs_last_action: whether `loss` reads the action at an unroll's last step,
      which must then be taken there. Both are for A3C's siblings alone.
  """
  make_agent: MakeAgentFn
  loss: LossFn
  after_step: AfterStepFn = lambda agent, totals, config: None
  needs_target_agent: bool = False
  needs_last_action: bool = False
