"""Losses of the asynchronous value methods, by worked examples in float32."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.algorithms import async_q
from impala_tf.maths import distributions
from tests.fixtures import loss_inputs

T, B, A = 5, 3, 3
# Q of the target network at x_0 to x_5. Q(x_0) bootstraps nothing.
TARGET_VALUES = np.float32(
    [[7, 7, 7], [2, 0, 1], [0, 4, 3], [6, 1, 2], [5, 8, 4], [3, 4, 1]])
# Theta's prefers other actions than the target network everywhere.
VALUES = np.float32(
    [[1, 2, 3], [0, 3, 1], [5, 0, 1], [0, 0, 4], [1, 1, 4], [9, 0, 0]])
ACTIONS = np.int32([1, 0, 0, 2, 2, 2])
REWARDS = np.float32([50, 1, 0, 2, 0, 1])  # The first led to x_0.
# Columns: nothing ends; the episode ends after the third transition; a time
# limit cuts it off there, where V(x_2) of the target network is 4.
TARGETS = {
    'one_step_q': ([2, 2, 5, 4, 3], [2, 2, 2, 4, 3], [2, 2, None, 4, 3]),
    'one_step_sarsa': (
        [2, 0, 3, 2, 1.5], [2, 0, 2, 2, 1.5], [2, 0, None, 2, 1.5]),
    'n_step_q': ([1.6875, 1.375, 2.75, 1.5, 3], [1.5, 1, 2, 1.5, 3],
                 [2, 2, None, 1.5, 3])}


def _config(name, **options):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(algorithm=name),
      impala=config_lib.ImpalaConfig(
          **{'discount': .5, 'reward_clipping': 'none', **options}))


def _columns(x):
  return np.repeat(x[:, np.newaxis], B, axis=1)


def _agent(values, make=loss_inputs.TableAgent):
  return make(_columns(values), tf.ones([T + 1, B]))


def _unroll():
  step_type = np.full([T + 1, B], loss_inputs.MID, np.uint8)
  discount = np.ones([T + 1, B], np.float32)
  step_type[3, 1:], discount[3, 1] = loss_inputs.FIRST, 0
  step_type[2, 2] = loss_inputs.LAST  # Its reward counts.
  rewards = _columns(REWARDS)
  rewards[3, 2] = np.nan  # Behind the time limit nothing counts.
  return tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      _columns(ACTIONS), _columns(VALUES), rewards, step_type, discount))


def _loss(name, **options):
  """Computes the loss, and its gradients for both agents."""
  agent, target_agent = _agent(VALUES), _agent(TARGET_VALUES)
  with tf.GradientTape() as tape:
    output = async_q.loss(agent, _unroll(), _config(name, **options), None,
                          target_agent=target_agent)
  return output, tape.gradient(output.loss, [
      agent.logits, agent.baseline, target_agent.logits])


@pytest.mark.parametrize('name', TARGETS)
def test_loss_is_half_the_sum_of_squared_errors(name):
  output, (of_values, of_baseline, of_target) = _loss(name)
  # dL / dQ(x_t, a_t) = Q(x_t, a_t) - y_t, and nothing else learns.
  expected, losses = np.zeros([T + 1, B, A], np.float32), np.zeros(B)
  for b, targets in enumerate(TARGETS[name]):
    for t, target in enumerate(targets):
      if target is not None:
        error = VALUES[t, ACTIONS[t]] - target
        expected[t, b, ACTIONS[t]] = error
        losses[b] += error**2 / 2
  np.testing.assert_array_equal(of_values, expected)
  np.testing.assert_array_equal(output.metrics['loss/total'], losses)
  chosen = VALUES[range(T), ACTIONS[:T]]
  np.testing.assert_allclose(output.metrics['action_value'], [
      np.mean(chosen), np.mean(chosen), np.mean(np.delete(chosen, 2))])
  assert output.loss == np.sum(losses)
  assert of_baseline is None and of_target is None


def test_rewards_are_clipped_as_configured():
  _, (of_values, *_) = _loss('one_step_q', reward_clipping='abs_one')
  # The reward of 2 counts as 1: y_2 = 1 + 6 / 2.
  assert of_values[2, 0, ACTIONS[2]] == VALUES[2, ACTIONS[2]] - 4


def test_memory_before_the_unroll_is_for_both_networks():
  states = []

  class Agent(loss_inputs.TableAgent):

    def unroll(self, env_outputs, actions, core_state):
      states.append(core_state)
      return super().unroll(env_outputs, actions, core_state)

  unroll = _unroll()._replace(core_state='memory')
  async_q.loss(_agent(VALUES, Agent), unroll, _config('n_step_q'), None,
               target_agent=_agent(TARGET_VALUES, Agent))
  assert states == ['memory', 'memory']


@pytest.mark.parametrize('policy', [
    distributions.Gaussian(2), distributions.MultiCategorical((2, 3))], ids=str)
def test_other_actions_than_one_choice_are_refused(policy):
  with pytest.raises(config_lib.ConfigError, match='one choice of'):
    async_q.ALGORITHM.make_agent(_config('n_step_q'), policy, 'float32', False)
