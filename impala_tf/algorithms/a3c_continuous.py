"""A3C for continuous actions (Mnih et al. 2016, section 9).

The loss is A3C's, that is IMPALA's without a correction. Policy and value have
separate networks, and all dimensions of an action share one variance.
"""

from impala_tf.agents import a3c_agents
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala

ALGORITHM = algorithm.Algorithm(
    algorithm.makes(a3c_agents.SeparateAgent), impala.loss)
