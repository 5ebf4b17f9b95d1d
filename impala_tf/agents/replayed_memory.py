"""Memory of replayed unrolls, computed again with the newest parameters.

Source: Schmitt et al. 2020 (LASER), supplement, section 1.2: an LSTM's state
from when an unroll was played means something else to today's parameters, and
nothing to another agent's.
"""

import tensorflow as tf

from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.runtime import interfaces


class MemoryRecomputer:
  """An agent beside the learner that steps through replayed unrolls."""

  def __init__(self, agent: agent_lib.Agent, fetcher: interfaces.Fetcher):
    """Prepares the graph; `fetcher` updates the variables of the agent."""
    self._fetcher = fetcher
    self._memory_after = tf.function(
        lambda env_outputs, actions, core_state: agent.memory_after(
            agent_lib.restacked(env_outputs), actions, core_state),
        autograph=False)

  def __call__(self, unroll: types.Unroll) -> agent_lib.CoreState:
    """Computes the memory with which the unrolls that follow begin.

    Frames of the batch, leading [T+1, B], are not re-stacked yet. Raises
    ConnectionError if the fetcher has lost the learner.
    """
    self._fetcher.fetch()
    return self._memory_after(
        unroll.env_outputs, unroll.agent_outputs.action, unroll.core_state)
