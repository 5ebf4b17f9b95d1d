"""The agent: step against unroll, and what may cross which boundary."""

from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import networks
from impala_tf.agents import torsos
from impala_tf.maths import distributions

T, B, A, D, FEATURES, L = 6, 3, 5, 2, 4, 3
FIRST, MID = 0, 1
DISCRETE = distributions.Categorical(A)
CONTINUOUS = distributions.Gaussian(D)
CHOICES = distributions.MultiCategorical((3, 2))
both_kinds = pytest.mark.parametrize('policy', [DISCRETE, CONTINUOUS], ids=str)


def _agent(use_lstm=True, torso='mlp', shape=(FEATURES,), dtype=np.float32,
           instruction_length=0, policy=DISCRETE, normalise=False,
           **side_channels):
  tf.random.set_seed(2)
  agent = agent_lib.Agent(policy, config.AgentConfig(
      torso=torso, use_lstm=use_lstm, hidden_size=7, lstm_size=6,
      instruction_length=instruction_length, normalise_observations=normalise))
  agent.build(specs.Array(shape, dtype), **side_channels)
  rng = np.random.default_rng(1)
  for v in agent.trainable_variables:  # Biases too, and logits far apart.
    v.assign_add(rng.normal(scale=np.prod(v.shape[:-1])**-0.5, size=v.shape))
  return agent


def _data(instruction_length=0, policy=DISCRETE):
  """Makes env_outputs and actions [T+1, B]; env 0 ends no episode, env 1 two.

  Env 2 loses a life at x_3. Instructions have any number of words up to the
  most, other ones at each step.
  """
  rng = np.random.default_rng(0)
  instruction = ()
  if instruction_length:
    word_rng = np.random.default_rng(9)
    instruction = word_rng.integers(
        1, 1001, size=[T + 1, B, instruction_length]).astype(np.int32)
    num_words = word_rng.integers(instruction_length + 1, size=[T + 1, B, 1])
    instruction *= np.arange(instruction_length) < num_words
  step_type = np.full([T + 1, B], MID, np.uint8)
  discount = np.ones([T + 1, B], np.float32)
  step_type[2, 1] = step_type[5, 1] = FIRST
  discount[2, 1] = discount[3, 2] = 0
  env_outputs = types.EnvOutput(
      step_type=step_type,
      reward=rng.normal(size=[T + 1, B]).astype(np.float32),
      discount=discount,
      observation=rng.normal(size=[T + 1, B, FEATURES]).astype(np.float32),
      episode_return=np.zeros([T + 1, B], np.float32),
      episode_steps=np.zeros([T + 1, B], np.int32),
      instruction=instruction)
  if policy is CONTINUOUS:
    return env_outputs, rng.normal(size=[T + 1, B, D]).astype(np.float32)
  return env_outputs, rng.integers(A, size=[T + 1, B]).astype(np.int32)


def _other(actions):
  """Changes each action to another one."""
  return (actions + 1) % A if actions.dtype == np.int32 else actions + 0.5


def _state(policy=DISCRETE):
  """Makes a core state that remembers something."""
  rng = np.random.default_rng(3)
  hidden, cell = rng.normal(size=[2, B, 6]).astype(np.float32)
  last_action = np.array([3, 4, 1], np.int32)
  if policy is CONTINUOUS:
    last_action = rng.normal(size=[B, D]).astype(np.float32)
  return agent_lib.CoreState(
      networks.LSTMState(tf.constant(hidden), tf.constant(cell)),
      tf.constant(last_action))


def _at(env_outputs, index):
  return tf.nest.map_structure(lambda x: x[index], env_outputs)


def _constant(tree):
  return tf.nest.map_structure(tf.constant, tree)


def _unroll(agent, env_outputs, actions, core_state):
  """Returns policy_logits and baseline as one array [T+1, B, A+1]."""
  outputs = agent.unroll(_constant(env_outputs), tf.constant(actions),
                         core_state)
  return np.concatenate(
      [outputs.policy_logits, outputs.baseline[..., np.newaxis]], axis=-1)


def _change(env_outputs, **fields):
  """Returns a changed copy; `fields` hold (index, value)."""
  changed = {}
  for name, (index, value) in fields.items():
    changed[name] = getattr(env_outputs, name).copy()
    changed[name][index] = value
  return env_outputs._replace(**changed)


def _play(agent, env_outputs, core_state, num_steps):
  """Acts step by step; returns actions, logits and the last core state."""
  step = tf.function(agent.step)
  actions, logits = [], []
  for t in range(num_steps):
    env_output = _constant(_at(env_outputs, t))
    output, core_state = step(env_output, core_state, tf.constant([7, t]))
    actions.append(output.action)
    logits.append(output.policy_logits)
  return np.array(actions), np.array(logits), core_state


@pytest.mark.parametrize('use_lstm, instruction_length, policy', [
    (False, 0, DISCRETE), (False, L, CONTINUOUS), (True, 0, CONTINUOUS),
    (True, L, DISCRETE)])
def test_steps_over_time_are_the_unroll(use_lstm, instruction_length, policy):
  agent = _agent(use_lstm, instruction_length=instruction_length, policy=policy)
  env_outputs, _ = _data(instruction_length)
  core_state = _state(policy) if use_lstm else ()
  actions, logits, _ = _play(agent, env_outputs, core_state, T + 1)
  assert actions.dtype == policy.action_dtype and len(set(actions.flat)) > 2
  assert actions.shape == (T + 1, B) + policy.action_shape
  outputs = agent.unroll(_constant(env_outputs), tf.constant(actions),
                         core_state)
  np.testing.assert_allclose(outputs.policy_logits, logits, atol=1e-5)
  assert outputs.baseline.shape == [T + 1, B]


@both_kinds
def test_the_last_action_is_that_of_the_step_before(policy):
  agent = _agent(policy=policy)
  env_outputs, actions = _data(policy=policy)
  state = _state(policy)
  before = _unroll(agent, env_outputs, actions, state)
  for t in range(T + 1):
    changed = actions.copy()
    changed[t, 0] = _other(changed[t, 0])
    after = _unroll(agent, env_outputs, changed, state)
    np.testing.assert_array_equal(after[:t + 1], before[:t + 1])
    np.testing.assert_array_equal(after[:, 1:], before[:, 1:])
    if t < T:
      assert np.abs(after[t + 1, 0] - before[t + 1, 0]).max() > 1e-3
  # That before x_0 is in the core state.
  last_action = state.last_action.numpy()
  last_action[0] = _other(last_action[0])
  after = _unroll(agent, env_outputs, actions,
                  state._replace(last_action=tf.constant(last_action)))
  assert np.abs(after[0, 0] - before[0, 0]).max() > 1e-3


@both_kinds
def test_nothing_not_even_nan_crosses_the_start_of_an_episode(policy):

  def spoil(actions):
    return _other(actions) if actions.dtype == np.int32 else actions * np.nan

  agent = _agent(policy=policy)
  env_outputs, actions = _data(policy=policy)
  first = 2
  state = _state(policy)
  before = _unroll(agent, env_outputs, actions, state)
  # All that was before x_2, and the reward that led to it.
  past = (slice(None, first), 1)
  spoilt = _change(env_outputs, observation=(past, np.nan),
                   reward=((slice(None, first + 1), 1), np.nan))
  spoilt_actions = actions.copy()
  spoilt_actions[past] = spoil(actions[past])
  state = agent_lib.CoreState(
      tf.nest.map_structure(lambda t: t * np.nan, state.lstm),
      tf.constant(spoil(state.last_action.numpy())))
  after = _unroll(agent, spoilt, spoilt_actions, state)
  np.testing.assert_array_equal(after[first:, 1], before[first:, 1])
  assert np.all(np.isnan(after[:first, 1]))


def test_reward_that_is_not_finite_leaves_actions_to_be_played():
  env_outputs, actions = _data()
  spoilt = _change(env_outputs, reward=((2, 1), np.nan))
  nothing = _change(env_outputs, reward=((2, 1), 0))
  agent, state = _agent(), _state()
  np.testing.assert_array_equal(_unroll(agent, spoilt, actions, state),
                                _unroll(agent, nothing, actions, state))


def test_an_episode_that_starts_inside_is_one_that_starts_an_unroll():
  agent = _agent()
  env_outputs, actions = _data()
  outputs = _unroll(agent, env_outputs, actions, _state())
  rest = _at(env_outputs, np.s_[2:])
  anew = _unroll(agent, rest, actions[2:], agent.initial_state(B))
  np.testing.assert_allclose(outputs[2:, 1], anew[:, 1], atol=1e-6)
  # No last action is not action 0, which a lost memory would stand for.
  for last_action in range(A):
    state = agent.initial_state(B)._replace(
        last_action=tf.fill([B], last_action))
    np.testing.assert_array_equal(
        _unroll(agent, rest, actions[2:], state)[:, 1], anew[:, 1])


@pytest.mark.parametrize('past', ['memory', 'action', 'reward'])
def test_memory_action_and_reward_cross_a_lost_life(past):
  agent = _agent()
  env_outputs, actions = _data()
  life_loss = 3
  assert env_outputs.discount[life_loss, 2] == 0
  before = _unroll(agent, env_outputs, actions, _state())
  other, other_actions = env_outputs, actions.copy()
  if past == 'memory':
    other = _change(env_outputs, observation=((life_loss - 1, 2), 0.5))
  elif past == 'action':
    other_actions[life_loss - 1, 2] = (actions[life_loss - 1, 2] + 1) % A
  else:
    other = _change(env_outputs, reward=((life_loss, 2), 0.5))
  after = _unroll(agent, other, other_actions, _state())
  assert np.abs(after[life_loss, 2] - before[life_loss, 2]).max() > 1e-3
  # The agent does not see the discount at all.
  np.testing.assert_array_equal(_unroll(agent, _change(
      env_outputs, discount=((life_loss, 2), 1)), actions, _state()), before)


@pytest.mark.parametrize('reward,same_as,differs_from', [
    (7.0, 1.0, 0.5), (-20.0, -1.0, -0.5), (0.3, 0.3, 0.7)])
def test_the_last_reward_is_seen_clipped(reward, same_as, differs_from):
  agent = _agent()
  env_outputs, actions = _data()

  def outputs(r):
    changed = _change(env_outputs, reward=((4, 0), r))
    return _unroll(agent, changed, actions, _state())[4, 0]

  np.testing.assert_array_equal(outputs(reward), outputs(same_as))
  assert np.abs(outputs(reward) - outputs(differs_from)).max() > 1e-3


def test_a_feed_forward_agent_sees_the_observation_alone():
  agent = _agent(use_lstm=False)
  assert agent.initial_state(B) == ()
  env_outputs, actions = _data()
  outputs = _unroll(agent, env_outputs, actions, ())
  blind = env_outputs._replace(reward=env_outputs.reward + 1,
                               step_type=1 - env_outputs.step_type)
  np.testing.assert_array_equal(
      _unroll(agent, blind, (actions + 1) % A, ()), outputs)
  # Only the outputs of its step change.
  changed = _change(env_outputs, observation=((2, 1), 0.5))
  differs = np.any(_unroll(agent, changed, actions, ()) != outputs, axis=-1)
  np.testing.assert_array_equal(np.argwhere(differs), [[2, 1]])


def test_actions_are_sampled_from_the_policy():
  agent = _agent(use_lstm=False)
  row = _constant(_at(_data()[0], 0))
  seeds = tf.range(20)
  outputs = [agent.step(row, (), tf.stack([5, seed]))[0] for seed in seeds]
  actions = [o.action.numpy().tolist() for o in outputs]
  assert actions == [
      DISCRETE.sample(o.policy_logits, tf.stack([5, seed])).numpy().tolist()
      for o, seed in zip(outputs, seeds)]
  assert len(set(map(tuple, actions))) > 10


@pytest.mark.parametrize('use_lstm, where', [
    (True, [[3, 1], [4, 1]]), (False, [[3, 1]])])
def test_agent_with_memory_remembers_an_instruction_until_the_episode_ends(
    use_lstm, where):
  agent = _agent(use_lstm, instruction_length=L)
  env_outputs, actions = _data(L)
  state = _state() if use_lstm else ()
  before = _unroll(agent, env_outputs, actions, state)
  # Environment 1 gets another instruction at x_3; an episode begins at x_5.
  changed = _change(env_outputs, instruction=((3, 1), [7, 8, 0]))
  after = _unroll(agent, changed, actions, state)
  differs = np.abs(after - before).max(-1) > 1e-4
  np.testing.assert_array_equal(np.argwhere(differs), where)


@pytest.mark.parametrize('use_lstm', [False, True])
def test_instruction_decides_how_the_agent_acts_on_its_observation(use_lstm):
  agent = _agent(use_lstm, instruction_length=L)
  env_outputs, actions = _data(L)
  core_state = _state() if use_lstm else ()

  def logits(scale, words):
    return _unroll(agent, _change(
        env_outputs, observation=(0, scale * env_outputs.observation[0]),
        instruction=(0, words)), actions, core_state)[0]

  differences = [logits(1, [3, word, 0]) - logits(-1, [3, word, 0])
                 for word in range(1, 20)]
  # In a sum of the effects of both they would all be equal.
  assert np.ptp(differences, axis=0).max() > 1e-2


# Torso (see networks_test.py), LSTM of torso + reward + 9 actions, heads. The
# paper's 1.2 and 1.6 million include the instruction's LSTM of 64, whose output
# the other LSTM reads. It has embeddings of 20, of 1000 words and of none.
@pytest.mark.parametrize('torso,of_torso,in_millions', [
    ('shallow', 585_008, 1.2), ('deep', 982_592, 1.6)])
def test_sizes_are_those_of_figure_3(torso, of_torso, in_millions):

  def num_parameters(**options):
    agent = agent_lib.Agent(
        distributions.Categorical(9),
        config.AgentConfig(torso=torso, use_lstm=True, **options))
    agent.build(specs.Array((72, 96, 3), np.uint8))
    return sum(int(tf.size(v)) for v in agent.trainable_variables)

  without = of_torso + (256 + 1 + 9 + 256 + 1) * 4 * 256 + 257 * (9 + 1)
  assert num_parameters() == without
  reading = num_parameters(instruction_length=16)
  assert reading == (
      without + 1001 * 20 + (20 + 64 + 1) * 4 * 64 + 64 * 4 * 256)
  assert round(reading / 1e6, 1) == in_millions


def test_only_the_torso_has_a_gain():

  def initial_parts(gain):
    tf.random.set_seed(2)
    agent = agent_lib.Agent(DISCRETE, config.AgentConfig(
        torso='deep', use_lstm=True, instruction_length=4, torso_gain=gain))
    agent.build(specs.Array((20, 21, 3), np.uint8))
    return {name: [v.numpy() for v in variables]
            for name, variables in agent.parts.items()}

  doubled = initial_parts(2.0)
  for name, weights in initial_parts(1.0).items():
    factor = 2 if name == 'torso' else 1
    for v, w in zip(weights, doubled[name]):
      np.testing.assert_array_equal(w, factor * v)


# Images with features beside them, masks, and normalised observations.

_F = 3


def _featured(use_lstm, normalise=False):
  """Makes an agent of two choices, and data [T+1, B] with masks of these."""
  agent = _agent(use_lstm, 'shallow', (20, 20, 1), np.uint8, policy=CHOICES,
                 normalise=normalise, num_features=_F, has_action_mask=True)
  rng = np.random.default_rng(4)
  mask = rng.integers(2, size=[T + 1, B, 5])
  mask[..., [1, 3]] = 1
  env_outputs = _data()[0]._replace(
      observation=rng.integers(256, size=[T + 1, B, 20, 20, 1], dtype=np.uint8),
      features=rng.normal(5, 2, size=[T + 1, B, _F]).astype(np.float32),
      action_mask=mask.astype(np.uint8))
  return agent, env_outputs


@pytest.mark.parametrize('use_lstm', [False, True])
def test_steps_with_features_and_masks_are_the_unroll(use_lstm):
  agent, env_outputs = _featured(use_lstm)
  state = agent.initial_state(B)
  actions, logits, _ = _play(agent, env_outputs, state, T + 1)
  assert actions.shape == (T + 1, B, 2)
  outputs = agent.unroll(_constant(env_outputs), tf.constant(actions), state)
  np.testing.assert_allclose(outputs.policy_logits, logits, atol=1e-4)
  # No illegal action was taken, and each had probability 0.
  taken = CHOICES.encode(tf.constant(actions)).numpy()
  illegal = env_outputs.action_mask == 0
  assert illegal.any() and not taken[illegal].any()
  assert (logits[illegal] == distributions.ILLEGAL_LOGIT).all()
  assert np.abs(logits[~illegal]).max() < 1e3
  assert np.isfinite(CHOICES.log_prob(outputs.policy_logits, actions)).all()


@pytest.mark.parametrize('use_lstm', [False, True])
def test_features_decide_how_the_agent_acts_on_its_observation(use_lstm):
  agent, env_outputs = _featured(use_lstm)
  actions = np.zeros([T + 1, B, 2], np.int32)
  state = agent.initial_state(B)

  def values(image, features):
    return _unroll(agent, _change(
        env_outputs, observation=(0, image), features=(0, features)),
                   actions, state)[0, :, -1]

  image = env_outputs.observation[0]
  differences = [values(image, x) - values(255 - image, x)
                 for x in np.linspace(-9, 9, 15)[:, None, None]]
  assert np.ptp(differences, axis=0).max() > 1e-2


def test_missing_side_channels_are_refused():
  agent, env_outputs = _featured(use_lstm=False)
  for name in 'features', 'action_mask':
    with pytest.raises(ValueError, match='reads .*, but was given none'):
      _play(agent, env_outputs._replace(**{name: ()}), (), 1)
  with pytest.raises(ValueError, match='reads instructions, but was given'):
    _unroll(_agent(use_lstm=False, instruction_length=L), *_data(), ())


def test_old_agents_have_the_variables_that_they_had(tmp_path):
  """Names in checkpoints and the order in which parameters travel."""
  agent = _agent(use_lstm=True, torso='shallow', shape=(36, 40, 2),
                 dtype=np.uint8, instruction_length=L)
  assert agent.published_variables == agent.trainable_variables
  assert len(agent.variables) == len(agent.trainable_variables)
  names = sorted({key.split('/.ATTRIBUTES')[0] for key, _ in
                  tf.train.list_variables(tf.train.Checkpoint(
                      agent=agent).write(str(tmp_path / 'old')))
                  if key.startswith('agent/')})
  assert {name.split('/')[1] for name in names} == {
      '_baseline_head', '_core', '_instruction_encoder', '_policy_head',
      '_torso'}


@pytest.mark.parametrize('kind', ['features', 'vector'])
def test_normalised_agent_sees_deviations_from_the_mean(kind):
  """Far away and scaled, with moments to match, everything looks the same."""
  if kind == 'features':
    agent, env_outputs = _featured(use_lstm=True, normalise=True)
  else:
    agent, (env_outputs, _) = _agent(normalise=True), _data()
  name = 'features' if kind == 'features' else 'observation'
  near = getattr(env_outputs, name)
  actions = np.zeros([T + 1, B, *agent.distribution.action_shape], np.int32)
  initial = [v.numpy() for v in agent.variables]
  outputs = []
  for values in near, 300 + 40 * near:
    for variable, value in zip(agent.variables, initial):
      variable.assign(value)
    given = env_outputs._replace(**{name: values.astype(np.float32)})
    totals = agent.observation_totals(_constant(given))
    assert totals.count == T * B
    agent.normaliser.update(totals)
    outputs.append(_unroll(agent, given, actions, agent.initial_state(B)))
  np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-3, atol=1e-3)
  assert len(agent.published_variables) == len(agent.trainable_variables) + 2


@pytest.mark.parametrize('options, shape, words', [
    ({'normalise_observations': True}, (36, 36, 4), 'is for vectors'),
    ({'torso': 'deep'}, (10, 5), "'deep' needs images.*'mlp'")])
def test_observations_that_do_not_fit_are_refused(options, shape, words):
  agent = agent_lib.Agent(DISCRETE, config.AgentConfig(**options))
  with pytest.raises(config.ConfigError, match=words):
    agent.build(specs.Array(shape, np.uint8))


def test_torso_with_variables_that_would_not_be_trained_is_refused(monkeypatch):
  layer = tf.keras.layers.Dense(7)
  hiding = type('', (tf.Module,), {'__call__': lambda self, x: layer(x)})
  monkeypatch.setitem(torsos.OWN, 'own', lambda size, precision: hiding())
  with pytest.raises(config.ConfigError, match="'own' uses a .* 'dense"):
    _agent(torso='own')


@pytest.mark.skipif(
    not issubclass(tf.keras.layers.Layer, tf.Module),
    reason='layers of Keras 3 are no tf.Modules')
def test_torso_may_be_a_model_of_keras(monkeypatch, tmp_path):
  monkeypatch.setitem(torsos.OWN, 'own', lambda size, precision: (
      tf.keras.Sequential([tf.keras.layers.Dense(size, dtype=precision)])))
  agent = _agent(torso='own')
  parts = agent.parts['torso']
  assert [v.shape.as_list() for v in parts] == [[FEATURES, 7], [7]]
  env_outputs, actions = map(_constant, _data())

  def outputs(any_agent):
    return any_agent.unroll(env_outputs, actions, _state())

  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(outputs(agent).baseline)
  for gradient in tape.gradient(loss, parts):
    assert np.any(gradient.numpy())
  path = tf.train.Checkpoint(agent=agent).write(str(tmp_path / 'saved'))
  other = _agent(torso='own')
  for variable in other.trainable_variables:
    variable.assign(variable + 1.)
  tf.train.Checkpoint(agent=other).read(path).assert_consumed()
  for x, y in zip(outputs(agent), outputs(other)):
    np.testing.assert_array_equal(x, y)


class _Fetcher:
  """Gives an agent's variables other values at each fetch."""

  def __init__(self, agent):
    self._agent = agent
    self._rng = np.random.default_rng(2)

  def fetch(self):
    for variable in self._agent.trainable_variables:
      variable.assign(self._rng.normal(scale=0.5, size=variable.shape))


def test_recomputed_memory_is_that_of_stepping_through_the_episode():
  agent = _agent()
  recompute = agent_lib.memory_recomputer(agent, _Fetcher(agent))
  env_outputs, actions = map(_constant, _data())
  memory = _state()
  length = 3
  for start in range(0, T, length):
    cut = slice(start, start + length + 1)
    before = agent.trainable_variables[0].numpy()
    recomputed = recompute(types.Unroll(
        _at(env_outputs, cut), types.AgentOutput(actions[cut], ()), memory, (),
        ()))
    assert np.any(agent.trainable_variables[0] != before)
    for t in range(start, start + length):  # With the parameters just fetched.
      _, memory = agent.step(
          _at(env_outputs, t), memory, seed=tf.constant([1, t]))
      memory = memory._replace(last_action=actions[t])
    for x, y in zip(tf.nest.flatten(recomputed), tf.nest.flatten(memory)):
      np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
