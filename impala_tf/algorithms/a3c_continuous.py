"""A3C for continuous actions (Mnih et al. 2016, section 9).

The loss is A3C's, that is IMPALA's without a correction. Policy and value have
separate networks, and all dimensions of an action share one variance.
"""

from impala_tf.agents import separate_agent
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import impala

ALGORITHM = algorithm.Algorithm(
    algorithm.makes(separate_agent.SeparateAgent), impala.loss)
