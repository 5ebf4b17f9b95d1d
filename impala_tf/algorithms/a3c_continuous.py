"""A3C for continuous actions (Mnih et al. 2016, section 9).

The loss is IMPALA's without a correction, which is A3C's; policy and value have
networks of their own, and all dimensions of an action one variance.
"""

from impala_tf import config as config_lib
from impala_tf.agents import separate_agent
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala
from impala_tf.maths import distributions


def make_agent(config: config_lib.Config,
               distribution: distributions.Distribution, precision: str,
               compiled: bool) -> separate_agent.SeparateAgent:
  """Makes an agent of two networks; see `algorithm.Algorithm`.

  Raises:
    ConfigError: where actions are not continuous.
  """
  return separate_agent.SeparateAgent(
      distribution, config.agent, precision, compiled)


ALGORITHM = algorithm.Algorithm(make_agent, impala.loss)
