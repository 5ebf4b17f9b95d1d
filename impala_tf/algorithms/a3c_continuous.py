"""A3C for continuous actions (Mnih et al. 2016, section 9).

The loss is A3C's, that is IMPALA's without a correction. Policy and value have
separate networks, and all dimensions of an action share one variance.
"""

from impala_tf import config as config_lib
from impala_tf.agents import separate_agent
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala
from impala_tf.maths import distributions


def make_agent(config: config_lib.Config,
               distribution: distributions.Distribution, precision: str,
               compiled: bool) -> separate_agent.SeparateAgent:
  """Makes an agent of two networks, see `SeparateAgent`."""
  return separate_agent.SeparateAgent(
      distribution, config.agent, precision, compiled)


ALGORITHM = algorithm.Algorithm(make_agent, impala.loss)
