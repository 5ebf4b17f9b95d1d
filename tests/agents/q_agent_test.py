"""Agents of action values: greedy or random, by legal actions."""

import dm_env
from dm_env import specs
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import q_agent
from impala_tf.agents import saved
from impala_tf.envs import catch
from impala_tf.maths import distributions
from impala_tf.roles import evaluation

E, A = 2_000, 5
SPEC = specs.Array((3,), np.float32)
CONFIG = config_lib.AgentConfig(torso='mlp', hidden_size=6)


def _agent(observation_spec=SPEC, num_actions=A, **options):
  tf.random.set_seed(4)
  agent = q_agent.QAgent(distributions.Categorical(num_actions), CONFIG)
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
  assert isinstance(loaded, q_agent.QAgent) and loaded.epsilon == 0

  def returns(agent, **kwargs):
    return evaluation.evaluate(
        agent, catch.CatchEnvironment(16, seed=1), 32, seed=2, **kwargs).returns

  # Evaluation takes the most probable actions by default.
  assert returns(loaded) == returns(agent, deterministic=True)
  assert returns(loaded) != returns(agent)


def test_epsilon_is_no_parameter_and_the_baseline_is_one():
  agent = _agent()
  names = [v.name for v in agent.published_variables]
  assert len(names) == len(agent.variables) == 8  # Four layers.
  assert not any(v is agent.epsilon for v in agent.variables)
