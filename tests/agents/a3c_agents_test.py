"""Agents of Mnih et al. 2016: of action values, and of two networks."""

import dm_env
from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import a3c_agents
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import saved
from impala_tf.agents import transfer
from impala_tf.envs import catch
from impala_tf.maths import distributions
from impala_tf.roles import evaluation

E, A = 2_000, 5
SPEC = specs.Array((3,), np.float32)
CONFIG = config_lib.AgentConfig(torso='mlp', hidden_size=6)


def _agent(observation_spec=SPEC, num_actions=A, **options):
  tf.random.set_seed(4)
  agent = a3c_agents.QAgent(distributions.Categorical(num_actions), CONFIG)
  agent.build(observation_spec, **options)
  return agent


def _env_output(**side_channels):
  zeros = np.zeros(E, np.float32)
  return types.EnvOutput(
      np.full(E, dm_env.StepType.MID, np.uint8), zeros, zeros + 1,
      np.random.default_rng(0).normal(size=[E, 3]).astype(np.float32), zeros,
      np.zeros(E, np.int32), **side_channels)


def test_epsilon_is_the_share_of_uniform_actions_and_may_change():
  agent = _agent()
  policy = acting.Policy(agent, E, seed=1)
  seen = []
  for epsilon in 0., .3, 1.:  # The graph is that of the first call.
    agent.epsilon.assign(epsilon)
    output = policy.act(_env_output())
    greedy = np.argmax(output.policy_logits, axis=-1)
    assert len(set(greedy)) > 1
    share = epsilon * (1 - 1 / A)
    deviation = np.sqrt(share * (1 - share) / E)
    assert abs(np.mean(output.action != greedy) - share) <= 4 * deviation
    seen.append(output.action)
  counts = np.bincount(seen[-1], minlength=A)
  assert np.all(np.abs(counts / E - 1 / A) < 4 * np.sqrt(.2 * .8 / E))
  # Another call is another draw, the same seed the same one.
  assert np.any(policy.act(_env_output()).action != seen[-1])


def test_neither_greedy_nor_random_actions_are_illegal():
  agent = _agent(has_action_mask=True)
  mask = np.random.default_rng(1).random([E, A]) < .4
  mask[np.arange(E), np.arange(E) % A] = True
  for epsilon in 0., 1.:
    agent.epsilon.assign(epsilon)
    actions = acting.Policy(agent, E, seed=1).act(
        _env_output(action_mask=mask.astype(np.uint8))).action
    assert np.all(mask[np.arange(E), actions])
  # Two legal actions are equally likely.
  two = mask.sum(axis=1) == 2
  firsts = np.mean(actions[two] == np.argmax(mask, axis=1)[two])
  assert abs(firsts - .5) < 4 * .5 / np.sqrt(two.sum())


def test_loaded_agent_is_greedy_whatever_epsilon_was_when_it_was_saved(
    tmp_path):
  environment = catch.CatchEnvironment(16, seed=1)
  agent = _agent(environment.observation_spec(), 3)
  agent.epsilon.assign(1.)
  saved.export_agent(
      saved.LoadedAgent(
          agent, 7, 'ckpt-1', environment.observation_spec(), CONFIG),
      str(tmp_path))
  loaded = saved.load_agent(str(tmp_path)).agent
  assert isinstance(loaded, a3c_agents.QAgent) and loaded.epsilon == 0

  def returns(agent, **kwargs):
    return evaluation.evaluate(
        agent, catch.CatchEnvironment(16, seed=1), 32, seed=2, **kwargs).returns

  # Evaluation takes the most probable actions by default.
  assert returns(loaded) == returns(agent, deterministic=True)
  assert returns(loaded) != returns(agent)


# Two networks.

T, B, D = 4, 3, 2
VECTOR = specs.Array((5,), np.float32)
PAPER = config_lib.AgentConfig(
    torso='dense', hidden_size=200, use_lstm=True, lstm_size=128)
both_kinds = pytest.mark.parametrize('use_lstm', [False, True])


def _config(use_lstm):
  return config_lib.AgentConfig(
      torso='dense', hidden_size=6, use_lstm=use_lstm, lstm_size=4)


def _separate_agent(config, action_size=D):
  agent = a3c_agents.SeparateAgent(distributions.Gaussian(action_size), config)
  agent.build(VECTOR)
  return agent


def _unroll():
  rng = np.random.default_rng(0)
  step_type = np.full([T, B], dm_env.StepType.MID, np.uint8)
  step_type[2, 1] = dm_env.StepType.FIRST
  zeros = np.zeros([T, B], np.float32)
  return tf.nest.map_structure(tf.constant, types.EnvOutput(
      step_type, rng.normal(size=[T, B]).astype(np.float32), zeros + 1,
      rng.normal(size=[T, B, 5]).astype(np.float32), zeros, zeros))


def test_sizes_are_those_of_section_9():
  # 200 ReLU units, 128 LSTM cells that also see reward and last action; mean
  # and one variance; one value.
  core = 4 * 128 * (200 + 1 + D + 128) + 4 * 128
  network = (5 + 1) * 200 + core
  expected = 2 * network + 129 * (D + 1) + 129
  variables = _separate_agent(PAPER).trainable_variables
  assert sum(np.prod(v.shape) for v in variables) == expected


@both_kinds
def test_policy_and_value_share_no_parameters(use_lstm):
  agent = _separate_agent(_config(use_lstm))
  env_outputs = _unroll()
  with tf.GradientTape(persistent=True) as tape:
    outputs = agent.unroll(
        env_outputs, tf.ones([T, B, D]), agent.initial_state(B))
  of_policy, of_value = (
      [g is not None for g in tape.gradient(x, agent.trainable_variables)]
      for x in outputs)
  assert outputs.policy_logits.shape == [T, B, D + 1]
  assert outputs.baseline.shape == [T, B]
  assert all(np.logical_xor(of_policy, of_value))  # Each is of one of them.
  assert sum(of_policy) == sum(of_value) == (7 if use_lstm else 4)
  parts = [v.ref() for part in agent.parts.values() for v in part]
  assert len(parts) == len(set(parts))
  assert set(parts) == {v.ref() for v in agent.variables}


@both_kinds
def test_both_memories_are_carried_from_call_to_call(use_lstm):
  agent = _separate_agent(_config(use_lstm))
  player = acting.Policy(agent, B, 1)
  env_outputs, state = _unroll(), player.core_state

  def row(t):
    return tf.nest.map_structure(lambda x: x[t].numpy(), env_outputs)

  outputs = [player.act(row(t)) for t in range(T)]
  actions = tf.stack([o.action for o in outputs])
  expected = agent.unroll(env_outputs, actions, state)
  np.testing.assert_allclose(
      [o.policy_logits for o in outputs], expected.policy_logits, atol=1e-5)
  if use_lstm:  # The value has memory, too.
    first_two, second = (
        tf.nest.map_structure(lambda x, cut=cut: x[cut], (env_outputs, actions))
        for cut in (slice(2), slice(1, 2)))
    later = agent.unroll(*second, agent.memory_after(*first_two, state))
    np.testing.assert_allclose(
        later.baseline[0], expected.baseline[1], atol=1e-5)


def test_loaded_agent_is_the_saved_one(tmp_path):
  config = _config(True)
  agent = _separate_agent(config)
  saved.export_agent(
      saved.LoadedAgent(agent, 7, 'ckpt-1', VECTOR, config), str(tmp_path))
  loaded = saved.load_agent(str(tmp_path)).agent
  arguments = _unroll(), tf.ones([T, B, D]), agent.initial_state(B)
  for x, y in zip(loaded.unroll(*arguments), agent.unroll(*arguments)):
    np.testing.assert_array_equal(x, y)
  other = agent_lib.Agent(distributions.Gaussian(D), config)
  with pytest.raises(config_lib.UserError, match=(
      "kind 'separate' and not 'actor_critic'")):
    saved.describe_agent(str(tmp_path), other, VECTOR, config)


def test_networks_are_transferred_to_other_actions_of_the_same_kind():
  config = _config(True)
  agent, source = (_separate_agent(config, size) for size in (D, 3))
  lines = transfer.take_parameters(agent, source)
  assert [line.partition(' starts fresh')[0] for line in lines] == [
      'the policy head', "the LSTM's input of the last action",
      "the value LSTM's input of the last action"]
  for name in 'torso', 'value torso', 'value LSTM':
    for x, y in zip(agent.parts[name], source.parts[name]):
      np.testing.assert_array_equal(x, y)
  plain = agent_lib.Agent(distributions.Gaussian(D), config)
  plain.build(VECTOR)
  with pytest.raises(config_lib.UserError, match="of kind 'actor_critic'"):
    transfer.take_parameters(agent, plain)


def test_moments_of_observations_are_the_same_for_both_networks():
  agent = _separate_agent(config_lib.AgentConfig(
      torso='dense', hidden_size=6, normalise_observations=True))
  arguments = tf.ones([T, B, D]), ()
  env_outputs = _unroll()
  before = agent.unroll(env_outputs, *arguments)
  agent.normaliser.update(agent.observation_totals(env_outputs))
  for x, y in zip(before, agent.unroll(env_outputs, *arguments)):
    assert np.all(x.numpy() != y.numpy())


def test_discrete_actions_are_refused():
  with pytest.raises(config_lib.ConfigError, match="set it to 'a3c'"):
    a3c_agents.SeparateAgent(distributions.Categorical(3), PAPER)
