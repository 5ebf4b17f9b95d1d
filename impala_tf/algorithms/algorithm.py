"""The interface of a learning algorithm."""

from typing import Any, Callable, NamedTuple

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions
from impala_tf.optimizers import hyperparameters as hyperparameters_lib

MakeAgentFn = Callable[
    [config_lib.Config, distributions.Distribution, str, bool],
    agent_lib.Agent]
LossFn = Callable[
    [agent_lib.Agent, types.Unroll, config_lib.Config,
     hyperparameters_lib.Hyperparameters], types.LossOutput]
AfterStepFn = Callable[[agent_lib.Agent, Any, config_lib.Config], None]


def _do_nothing(agent: agent_lib.Agent, totals: Any,
                config: config_lib.Config) -> None:
  """Leaves an agent as the optimiser's step has made it."""
  del agent, totals, config


class Algorithm(NamedTuple):
  """The parts in which algorithms differ; all else is shared.

  Attributes:
    make_agent: function of the config, the policy's distribution, the precision
      of the torso ('float32', 'mixed_bfloat16' or 'bfloat16', see `Agent`) and
      whether XLA compiles it; returns an agent that is not built yet.
    loss: function of the agent, a batch of unrolls with leading [T+1, B] and
      frames re-stacked, the config and the hyper-parameters; returns
      `types.LossOutput`.
    after_step: function that is called in every replica with the agent, which
      has its new parameters, the loss's totals of the whole batch, and the
      config.
  """
  make_agent: MakeAgentFn
  loss: LossFn
  after_step: AfterStepFn = _do_nothing
