"""Segments are unrolls of one length; padding is not learned from."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.a3c import segments
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.core import learner
from impala_tf.maths import distributions
from impala_tf.optimizers import hyperparameters

_FIRST, _MID = 0, 1


def _row(number, step_type=_MID, discount=1.):
  env_output = types.EnvOutput(
      step_type=np.array([step_type], np.uint8),
      reward=np.array([number], np.float32),
      discount=np.array([discount], np.float32),
      observation=np.array([[number, -number]], np.float32),
      episode_return=np.zeros(1, np.float32),
      episode_steps=np.zeros(1, np.int32))
  return env_output, types.AgentOutput(
      np.array([number % 3], np.int32),
      np.array([[0.1, 0.2, number / 9]], np.float32))


def _fill(buffer, num_steps, last_discount=1., core_state=()):
  buffer.begin(core_state)
  buffer.record(*_row(0, _FIRST))
  for t in range(1, num_steps):
    buffer.record(*_row(t))
  # Where nothing is bootstrapped, a life was lost.
  buffer.record(*_row(num_steps, _MID, last_discount))


def test_full_segment_is_what_was_recorded():
  buffer = segments.SegmentBuffer(3)
  _fill(buffer, 3)
  assert buffer.num_steps == 3
  unroll = buffer.unroll()
  np.testing.assert_array_equal(
      unroll.env_outputs.reward, [[0], [1], [2], [3]])
  np.testing.assert_array_equal(unroll.agent_outputs.action[:, 0], [0, 1, 2, 0])
  assert unroll.env_outputs.observation.shape == (4, 1, 2)


def test_short_segment_is_padded_with_what_is_masked():
  buffer = segments.SegmentBuffer(5)
  _fill(buffer, 5)
  buffer.unroll()
  _fill(buffer, 2, last_discount=0.)  # Leftovers of the first lie behind it.
  assert buffer.num_steps == 2
  env_outputs = buffer.unroll().env_outputs
  np.testing.assert_array_equal(
      env_outputs.step_type[:, 0], [_FIRST, _MID, _MID, _FIRST, _FIRST, _FIRST])
  np.testing.assert_array_equal(env_outputs.discount[:, 0], [1, 1, 0, 1, 1, 1])
  np.testing.assert_array_equal(env_outputs.reward[:, 0], [0, 1, 2, 0, 0, 0])


@pytest.mark.parametrize('num_steps, length', [
    (1, 16), (16, 16), (17, 32), (40, 64), (3, 16)])
def test_whole_episode_has_the_length_of_a_power_of_two(num_steps, length):
  buffer = segments.SegmentBuffer(None)
  for _ in range(2):
    _fill(buffer, num_steps, last_discount=0.)
    env_outputs = buffer.unroll().env_outputs
    rewards = env_outputs.reward.numpy()[:, 0]
    assert len(rewards) == length + 1
    np.testing.assert_array_equal(rewards[:num_steps + 1],
                                  range(num_steps + 1))
    assert not rewards[num_steps + 1:].any()


@pytest.mark.parametrize('use_lstm', [False, True])
def test_padding_changes_no_gradient_and_no_metric(use_lstm):
  """Compares two steps alone with two steps padded to five."""
  config = config_lib.Config(
      agent=config_lib.AgentConfig(
          torso='mlp', hidden_size=4, use_lstm=use_lstm, lstm_size=3),
      impala=config_lib.ImpalaConfig(correction='none'))
  agent = agent_lib.Agent(distributions.Categorical(3), config.agent)
  tf.random.set_seed(1)
  agent.build(tf.TensorSpec([2], tf.float32))
  loss = functools.partial(
      impala.loss, config=config,
      hyperparameters=hyperparameters.Hyperparameters(config).present())
  gradients = []
  for max_steps in (2, 5):
    buffer = segments.SegmentBuffer(max_steps)
    _fill(buffer, 2, 0., agent.initial_state(1))
    gradients.append(learner.compute_gradients(agent, loss, buffer.unroll()))
  for short, padded in zip(*(g.values for g in gradients)):
    np.testing.assert_allclose(short, padded, rtol=1e-5, atol=1e-6)
  assert any(np.any(g.numpy()) for g in gradients[0].values)
  short, padded = (g.metrics for g in gradients)
  assert short.keys() == padded.keys() > {'entropy', 'explained_variance'}
  for name, value in short.items():
    np.testing.assert_allclose(
        padded[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
