"""Acting on NumPy batches: episodes, seeds, memory, and inputs in place."""

import sys

import dm_env
from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions

FIRST, MID = 0, 1
# Steps of two environments: (step_type, reward, discount). The first loses a
# life at step 2, ends its game at step 4 and another, of one step, at step 5;
# the second is lost with its simulator at step 3.
STEPS = (
    ((FIRST, 0, 1), (FIRST, 0, 1)),
    ((MID, 7.5, 1), (MID, -20, 1)),
    ((MID, 2, 0), (MID, 0, 1)),
    ((MID, 0.25, 1), (FIRST, -3, 1)),
    ((FIRST, 100, 0), (MID, 1, 1)),
    ((FIRST, -4, 0), (MID, 1, 1)),
    ((MID, 5, 1), (MID, 1, 0)),
)
RETURNS = ((7.5, 9.5, 9.75, 109.75, -4, 5), (-20, -20, -23, 1, 2, 3))
LENGTHS = ((1, 2, 3, 4, 1, 1), (1, 2, 0, 1, 2, 3))


def _timesteps():
  for step in STEPS:
    step_type, reward, discount = np.float32(step).T
    yield dm_env.TimeStep(step_type.astype(np.uint8), reward, discount,
                          np.zeros([2, 1], np.float32))


def _counted(timesteps):
  counter = acting.EpisodeCounter(2)
  # Copies: the counter goes on with its own arrays.
  return [tf.nest.map_structure(np.copy, counter.env_output(t))
          for t in timesteps]


def test_returns_and_lengths_are_of_full_games_and_raw_rewards():
  rows = _counted(_timesteps())[1:]
  np.testing.assert_array_equal(
      np.transpose([r.episode_return for r in rows]), RETURNS)
  np.testing.assert_array_equal(
      np.transpose([r.episode_steps for r in rows]), LENGTHS)
  assert rows[0].episode_return.dtype == np.float32
  assert rows[0].episode_steps.dtype == np.int32


def test_long_game_has_the_whole_sum_of_its_rewards():
  counter, (first, step, *_) = acting.EpisodeCounter(2), _timesteps()
  counter.env_output(first)
  for reward in 2.**25, 1., 1., 1., 1.:
    row = counter.env_output(step._replace(reward=np.float32([reward, 0])))
  assert row.episode_return.tolist() == [2**25 + 4, 0]


def test_reward_that_is_not_finite_ends_with_its_episode():
  timesteps = list(_timesteps())
  timesteps[2].reward[0] = np.nan
  timesteps[1].reward[1] = np.inf
  returns = np.transpose([row.episode_return for row in _counted(timesteps)])
  np.testing.assert_array_equal(
      returns[:, 1:], [[7.5, np.nan, np.nan, np.nan, -4, 5],
                       [np.inf, np.inf, np.inf, 1, 2, 3]])


def test_rows_are_counted_as_if_they_were_all():
  expected = _counted(_timesteps())
  counter = acting.EpisodeCounter(2)
  for timestep, wanted in zip(_timesteps(), expected):
    for e in 1, 0:
      row = counter.env_output(
          tf.nest.map_structure(lambda x, i=e: x[i:i + 1], timestep),
          rows=np.array([e]))
      for field, value in zip(tf.nest.flatten(row), tf.nest.flatten(wanted)):
        np.testing.assert_array_equal(field, value[e:e + 1])
        assert field.dtype == value.dtype


NUM_ENVS, A = 64, 5
DISCRETE = distributions.Categorical(A)


def _agent(use_lstm=False, distribution=DISCRETE, dtype=np.uint8,
           instruction_length=0, **side_channels):
  tf.random.set_seed(4)
  agent = agent_lib.Agent(distribution, config.AgentConfig(
      torso='mlp', use_lstm=use_lstm, hidden_size=6, lstm_size=3,
      instruction_length=instruction_length))
  agent.build(specs.Array((2, 3), dtype), **side_channels)
  return agent


def _env_output(t=1, **fields):
  rng = np.random.default_rng(t)
  return types.EnvOutput(
      step_type=(rng.random(NUM_ENVS) < 0.8).astype(np.uint8),
      reward=rng.normal(size=NUM_ENVS).astype(np.float32),
      discount=np.ones(NUM_ENVS, np.float32),
      observation=rng.integers(4, size=[NUM_ENVS, 2, 3]).astype(np.uint8),
      episode_return=np.zeros(NUM_ENVS, np.float32),
      episode_steps=np.zeros(NUM_ENVS, np.int32))._replace(**fields)


def _step(agent, env_output, core_state=(), seed=(1, 0)):
  """Acts as the agent itself does, without a policy."""
  return agent.step(*tf.nest.map_structure(
      tf.constant, (env_output, core_state, np.array(seed, np.int32))))


def _actions(agent, seed, num_calls=3):
  player = acting.Policy(agent, NUM_ENVS, seed)
  return np.array([player.act(_env_output()).action for _ in range(num_calls)])


def test_seed_and_call_number_determine_the_actions():
  agent = _agent()
  actions = _actions(agent, seed=3)
  np.testing.assert_array_equal(_actions(agent, seed=3), actions)
  others = [*actions, *_actions(agent, seed=2**31 - 1)]
  # The same observations every time: only seed and call number differ.
  for i, x in enumerate(others):
    for y in others[:i]:
      assert 0.1 < np.mean(x == y) < 0.9


@pytest.mark.parametrize('use_lstm', [False, True])
def test_memory_is_carried_from_call_to_call(use_lstm):
  agent = _agent(use_lstm)
  player = acting.Policy(agent, NUM_ENVS, 1)
  rows = [_env_output(t) for t in range(4)]
  initial_state = player.core_state
  outputs = [player.act(row) for row in rows]
  over_time = tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
  actions = tf.stack([o.action for o in outputs])
  np.testing.assert_allclose([o.policy_logits for o in outputs], agent.unroll(
      over_time, actions, initial_state).policy_logits, atol=1e-5)


def _interrupted(function, call):
  """Raises an interrupt in one call of Python code within `function`.

  Returns None if the interrupt left `function`, and the name of the called code
  if it was lost; () if there are fewer calls.
  """
  name, num_calls = (), 0

  def trace(frame, event, unused_argument):
    nonlocal name, num_calls
    if event == 'call':
      if num_calls == call:
        name = frame.f_code.co_name
        num_calls += 1
        raise KeyboardInterrupt
      num_calls += 1

  sys.setprofile(trace)
  try:
    function()
  except KeyboardInterrupt:
    return None
  finally:
    sys.setprofile(None)
  return name


@pytest.mark.parametrize('use_lstm', [False, True])
def test_no_interrupt_is_lost_in_tensorflow(use_lstm):
  # In C it asks for attributes, and may take an error for there being none.
  player, env_output = acting.Policy(
      _agent(use_lstm), NUM_ENVS, 1), _env_output()
  player.act(env_output)
  results = [_interrupted(lambda: player.act(env_output), call)
             for call in range(200)]
  assert set(results) == {None, ()}, results
  assert results[-1] == () and results.count(None) > 5


def test_side_channels_reach_the_agent_as_they_change_in_place():
  agent = _agent(instruction_length=3, num_features=2, has_action_mask=True)
  mask = np.random.default_rng(1).random([NUM_ENVS, A]) < 0.5
  mask[:, 1] = True
  env_output = _env_output(
      instruction=np.array([[1, 2, 0]] * NUM_ENVS, np.int32),
      features=np.zeros([NUM_ENVS, 2], np.float32), action_mask=np.uint8(mask))
  player = acting.Policy(agent, NUM_ENVS, 1)
  logits = []
  for words, features in ([1, 2, 0], 0), ([3, 0, 0], 0), ([3, 0, 0], 1):
    env_output.instruction[:] = words
    env_output.features[:] = features
    output = player.act(env_output)
    assert mask[np.arange(NUM_ENVS), output.action].all()
    np.testing.assert_allclose(
        output.policy_logits, _step(agent, env_output)[0].policy_logits,
        atol=1e-5)
    logits.append(np.where(mask, output.policy_logits, 0))
  for before, after in zip(logits, logits[1:]):
    assert np.abs(after - before).max(-1).min() > 1e-3


@pytest.mark.parametrize('use_lstm', [False, True])
def test_deterministic_actions_are_the_most_probable(use_lstm):
  player = acting.Policy(_agent(use_lstm), NUM_ENVS, 1, deterministic=True)
  for t in range(3):
    output = player.act(_env_output(t))
    np.testing.assert_array_equal(
        output.action, np.argmax(output.policy_logits, axis=-1))
    if use_lstm:  # It remembers its actions.
      np.testing.assert_array_equal(
          player.core_state.last_action, output.action)


def test_a_step_makes_one_tensor(monkeypatch):
  """Each leaks memory on Python 3.11."""
  player = acting.Policy(_agent(), NUM_ENVS, 1)
  row = _env_output(0)
  player.act(row)

  def refuse(*_, **__):
    raise AssertionError('an input became another tensor')

  monkeypatch.setattr(tf, 'constant', refuse)
  monkeypatch.setattr(tf, 'convert_to_tensor', refuse)
  monkeypatch.setattr(tf.experimental.dlpack, 'from_dlpack', refuse)
  calls, call = [], tf.raw_ops.StatefulPartitionedCall
  monkeypatch.setattr(
      tf.raw_ops, 'StatefulPartitionedCall',
      lambda **inputs: calls.append((inputs['args'], call(**inputs)))
      or calls[-1][1])
  shown = []
  for t in range(3):
    row.observation[...] = _env_output(t).observation  # Or an array made anew.
    for env_output in row, _env_output(t):
      shown.append(player.act(env_output).policy_logits)
  for inputs, outputs in calls:
    assert len(outputs) == 1
    assert [id(x) for x in inputs] == [id(x) for x in calls[0][0]]
  np.testing.assert_array_equal(shown[::2], shown[1::2])
  assert np.any(shown[0] != shown[2])  # Earlier outputs stay as they were.


class _Recalling(agent_lib.Agent):
  """An agent whose memory is the last observation and reward as they came.

  Attributes:
    look: function of the observation and the reward to the memory.
  """
  reads_rewards = True

  def initial_state(self, batch_size):
    return tf.zeros([batch_size, 2, 3], tf.uint8), tf.zeros([batch_size])

  def step(self, env_output, core_state, seed, deterministic=False):
    output, _ = super().step(env_output, (), seed, deterministic)
    return output, self.look(env_output.observation, env_output.reward)


@pytest.mark.parametrize('look', [
    lambda observation, reward: (observation, reward),
    # Reshaped tensors may lie in the memory of the original, too.
    lambda observation, reward: (
        tf.reshape(tf.expand_dims(observation, 0), observation.shape),
        tf.squeeze(tf.reshape(reward, [1, -1]), axis=0))])
def test_memory_of_observations_stays_when_others_come(look):
  agent = _Recalling(DISCRETE, config.AgentConfig(torso='mlp', hidden_size=6))
  agent.look = look
  agent.build(specs.Array((2, 3), np.uint8))
  player = acting.Policy(agent, NUM_ENVS, 1)
  rows = [_env_output(t) for t in range(3)]
  states = []
  for row in rows:
    player.act(row)
    states.append(player.core_state)
  for row, (observation, reward) in zip(rows, states):
    np.testing.assert_array_equal(observation, row.observation)
    np.testing.assert_array_equal(reward, row.reward)


def test_arrays_of_other_shapes_or_kinds_are_refused():
  player = acting.Policy(_agent(use_lstm=True), NUM_ENVS, 1)
  row = _env_output()
  player.act(row)
  for other in (row._replace(observation=row.observation[:, :1]),
                row._replace(reward=row.reward[:1]),
                tf.nest.map_structure(lambda x: np.repeat(x, 2, 0), row)):
    with pytest.raises(ValueError, match='for the agent, but is'):
      player.act(other)
  with pytest.raises(TypeError, match='Cannot cast'):
    player.act(row._replace(observation=row.observation + 0.5))


@pytest.mark.parametrize('use_lstm', [False, True])
def test_memory_of_rows_is_carried_through_batches_of_any_size(use_lstm):
  """One graph and one piece of memory serve them all."""
  agent = _agent(use_lstm)
  some = acting.Policy(agent, NUM_ENVS, seed=1, by_rows=True)
  rng = np.random.default_rng(5)
  expected = tf.nest.map_structure(np.array, agent.initial_state(NUM_ENVS))
  for t, num_rows in enumerate([NUM_ENVS, 3, 1, 40, 3, NUM_ENVS, 1, 40]):
    rows = rng.permutation(NUM_ENVS)[:num_rows]
    env_output, state = tf.nest.map_structure(
        lambda x, r=rows: x[r], (_env_output(t), expected))
    output = some.act(env_output, rows)
    wanted, state = _step(agent, env_output, state, (1, t))
    np.testing.assert_array_equal(output.action, wanted.action)
    np.testing.assert_allclose(
        output.policy_logits, wanted.policy_logits, atol=1e-5)
    for array, value in zip(tf.nest.flatten(expected), tf.nest.flatten(state)):
      array[rows] = value
    tf.nest.map_structure(
        lambda got, want: np.testing.assert_allclose(got, want, atol=1e-5),
        some.core_state, expected)


@pytest.mark.parametrize('dtype, distribution', [
    (np.bool_, DISCRETE),
    (np.int64, distributions.MultiCategorical((2, 4))),
    (np.float16, distributions.Gaussian(3))])
def test_observations_and_actions_may_be_of_any_type(dtype, distribution):
  agent = _agent(distribution=distribution, dtype=dtype)
  player = acting.Policy(agent, NUM_ENVS, seed=5)
  for t in range(2):
    row = _env_output(t)
    row = row._replace(observation=(row.observation > 1).astype(dtype))
    output = player.act(row)
    expected, _ = _step(agent, row, seed=(5, t))
    assert output.action.dtype == distribution.action_dtype.as_numpy_dtype
    assert output.action.flags.c_contiguous
    np.testing.assert_allclose(output.action, expected.action, atol=1e-5)
    np.testing.assert_allclose(
        output.policy_logits, expected.policy_logits, atol=1e-5)
