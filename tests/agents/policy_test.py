"""A loaded policy acts as its agent did in training, singly or in batches."""

import dm_env
import gymnasium
import numpy as np
import pytest
import tensorflow as tf

import impala_tf
from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import policy as policy_lib
from impala_tf.agents import saved
from impala_tf.core import experiment
from impala_tf.envs import gym
from impala_tf.envs import spaces
from impala_tf.envs import word_ids
from impala_tf.maths import distributions
from tests.fixtures import locks
from tests.fixtures import saved_parts

E = saved_parts.E
SHAPE = (10, 5)  # Of Catch.
VECTOR = dm_env.specs.Array((4,), np.float32)


@pytest.fixture(name='run_dir', scope='module')
def _run_dir(tmp_path_factory):
  """Makes a run of Catch whose agent has an LSTM and large weights."""
  path = tmp_path_factory.mktemp('run')
  parts = saved_parts.Parts(path)
  for variable in parts.learner.agent.trainable_variables:
    variable.assign(variable * 2.)
  saved_parts.describe(path, parts)
  parts.checkpointer.save(1)
  return str(path)


def _save(path, distribution, spec=VECTOR, num_tasks=None, side_channels=(),
          torso='mlp', **options):
  """Exports an agent; returns its directory."""
  config = config_lib.AgentConfig(torso=torso, hidden_size=4, **options)
  agent = agent_lib.Agent(distribution, config, num_tasks=num_tasks)
  agent.build(spec, *side_channels)
  saved.export_agent(saved.LoadedAgent(agent, 5, 'ckpt-3', spec, config),
                     str(path))
  return str(path)


@pytest.fixture(name='simple_dir', scope='module')
def _simple_dir(tmp_path_factory):
  return _save(tmp_path_factory.mktemp('simple'), distributions.Categorical(3))


@pytest.fixture(name='recurrent_dir', scope='module')
def _recurrent_dir(tmp_path_factory):
  """Makes an agent with an LSTM, whose actions show its memory."""
  return _save(tmp_path_factory.mktemp('recurrent'), distributions.Gaussian(2),
               use_lstm=True, lstm_size=4)


def _play_by_actor(run_dir, num_steps, seed):
  """Returns actions [n, E] as actors and evaluators choose them."""
  environment = experiment.make_environment(saved_parts.CONFIG, E, seed=3)
  policy = acting.Policy(saved.load_agent(run_dir).agent, E, seed)
  counter = acting.EpisodeCounter(E)
  timestep, actions = environment.reset(), []
  for _ in range(num_steps):
    actions.append(policy.act(counter.env_output(timestep)).action)
    timestep = environment.step(actions[-1])
  return np.array(actions)


def test_batch_is_played_as_in_training(run_dir):
  environment = impala_tf.make_environment('catch', num_envs=E, seed=3)
  policy = impala_tf.load_policy(run_dir, seed=7)
  timestep, actions = environment.reset(), []
  for _ in range(25):  # Episodes take nine steps.
    actions.append(policy.act(timestep.observation, reward=timestep.reward))
    timestep = environment.step(actions[-1])
    policy.reset(where=timestep.step_type == int(dm_env.StepType.FIRST))
  np.testing.assert_array_equal(actions, _play_by_actor(run_dir, 25, seed=7))
  assert len(np.unique(actions)) == 3


def test_single_observation_gives_the_int_that_gymnasium_takes(run_dir):
  """Plays three environments one by one as if they were a batch."""
  observations = np.random.default_rng(5).normal(size=(E, 4, *SHAPE))
  batch = impala_tf.load_policy(run_dir, deterministic=True)
  rewards = np.float32([[0, 0, 0], [1, -1, 0.5], [0, 0, 9], [-1, 0, 0]])
  together = [batch.act(o, reward=r)
              for o, r in zip(observations.swapaxes(0, 1), rewards)]
  for i in range(E):
    policy = impala_tf.load_policy(run_dir, deterministic=True)
    actions = [policy.act(o, reward=r)
               for o, r in zip(observations[i], rewards[:, i])]
    assert all(type(action) is int for action in actions)
    assert actions == [row[i] for row in together]


def test_reset_forgets_all_or_some(recurrent_dir):
  rows = np.random.default_rng(5).normal(size=(4, E, 4))
  policy = impala_tf.load_policy(recurrent_dir, deterministic=True)
  first = policy.act(rows[0])
  for observation in rows[1:]:
    policy.act(observation, reward=np.ones(E))
  policy.reset(where=np.array([False, True, False]))
  again = policy.act(rows[0], reward=np.ones(E))
  assert np.all(again == first, axis=1).tolist() == [False, True, False]
  policy.reset()
  # No reward came before the first observation.
  np.testing.assert_array_equal(policy.act(rows[0]), first)
  policy.reset()
  assert policy.act(rows[0, 0]).shape == (2,)  # Now one environment.


def test_seed_decides_what_is_sampled(simple_dir):
  observation = np.zeros(4, np.float32)

  def actions(**options):
    policy = impala_tf.load_policy(simple_dir, **options)
    return [policy.act(observation) for _ in range(30)]

  assert actions() == actions(seed=0) != actions(seed=1)
  assert len(set(actions())) == 3
  assert len(set(actions(deterministic=True))) == 1


def test_continuous_actions_are_arrays_and_means_unless_sampled(tmp_path):
  path = _save(tmp_path, distributions.Gaussian(2))
  observation = np.arange(4.)  # float64, as many simulators have it.
  policy = impala_tf.load_policy(path, deterministic=True)
  action = policy.act(observation)
  assert action.dtype == np.float32 and action.shape == (2,)
  np.testing.assert_array_equal(policy.act(observation), action)
  sampled = impala_tf.load_policy(path).act(np.stack([observation] * 5))
  assert sampled.shape == (5, 2) and len(np.unique(sampled[:, 0])) == 5


def test_instructions_are_read(tmp_path):
  path = _save(tmp_path, distributions.Gaussian(2), instruction_length=2)
  policy = impala_tf.load_policy(path, deterministic=True)
  go, here, there = (policy.act(np.zeros(4), instruction=text)
                     for text in ('go', 'open the door', 'open the window'))
  assert np.any(go != here)
  np.testing.assert_array_equal(here, there)  # Only two words are read.
  policy.reset()
  batch = policy.act(np.zeros([2, 4]), instruction=['go', 'open the door'])
  np.testing.assert_allclose(batch, [go, here], rtol=1e-5)
  ids = np.array([[*word_ids.word_ids('go'), 0], word_ids.word_ids('open the')])
  policy.reset()  # As an environment has them.
  np.testing.assert_array_equal(
      policy.act(np.zeros([2, 4]), instruction=ids), batch)
  _refused('reads 2 instruction', policy.act, np.zeros([2, 4]))


def _refused(words, act, *arguments, **kwargs):
  with pytest.raises(config_lib.UserError, match=words):
    act(*arguments, **kwargs)


@pytest.fixture(name='locks_dir', scope='module')
def _locks_dir(tmp_path_factory):
  """Makes an agent for images, features and masks of two choices."""
  return _save(
      tmp_path_factory.mktemp('locks'),
      distributions.MultiCategorical(locks.NVEC),
      dm_env.specs.Array((locks.SIZE, locks.SIZE, 1), np.uint8),
      side_channels=(locks.NUM_FEATURES, True), torso='shallow')


def test_raw_observations_of_a_gymnasium_space_are_taken(locks_dir):
  """The environment fails at an illegal action."""
  environments = [gymnasium.make('Locks-v0') for _ in range(2)]
  space = environments[0].observation_space
  policy, batched = (
      impala_tf.load_policy(locks_dir, seed=1, observation_space=space)
      for _ in range(2))
  seen = [env.reset(seed=i) for i, env in enumerate(environments)]
  for _ in range(locks.NUM_STEPS - 1):
    actions = batched.act([observation for observation, _ in seen],
                          action_mask=[info['action_mask'] for _, info in seen])
    assert actions.shape == (2, 2)
    observation, info = seen[0]
    single = policy.act(observation, action_mask=info['action_mask'])
    assert single.shape == (2,)
    seen = [(o, i) for o, _, _, _, i in (
        env.step(action + env.action_space.start)  # Ours count from 0.
        for env, action in zip(environments, actions))]


def test_features_are_read_as_a_space_brings_them(locks_dir):
  env = gymnasium.make('Locks-v0')
  observation, info = env.reset(seed=1)
  mask = info['action_mask']
  with_space = impala_tf.load_policy(
      locks_dir, deterministic=True, observation_space=env.observation_space)
  without = impala_tf.load_policy(locks_dir, deterministic=True)
  observed = spaces.Converter(env.observation_space)(observation)
  np.testing.assert_array_equal(
      with_space.act(observation, action_mask=mask),
      without.act(observed.observation, features=observed.features,
                  action_mask=mask))
  for arguments, words in (
      ({'action_mask': mask}, r'reads features \[1, 5\] .* given \[0\]'),
      ({'features': np.zeros(5)}, 'pass those of the 1 environment'),
      ({'features': np.zeros(5), 'action_mask': np.zeros(7)},
       'allows no value of choice 0')):
    without.reset()
    _refused(words, without.act, observed.observation, **arguments)
  _refused('was trained on uint8', impala_tf.load_policy, locks_dir,
           observation_space=gymnasium.spaces.Discrete(3))


_CHOICE = gymnasium.spaces.Discrete(3)
_PICTURE = gymnasium.spaces.Box(0, 1, (3, 40, 40), np.float32)


class _Room(gymnasium.Env):
  """A room that shows samples of any space.

  Attributes:
    shown: observations of all rooms.
  """
  shown = []

  def __init__(self, space, action_space, render_mode=None):
    self.observation_space, self.action_space = space, action_space

  def reset(self, *, seed=None, options=None):
    self.observation_space.seed(len(self.shown))
    self.shown.append(self.observation_space.sample())
    return self.shown[-1], {}


@pytest.fixture(name='played')
def _played(tmp_path):
  """Returns a function that saves an agent of a Room, and loads its policy."""
  def play(space, actions=_CHOICE, converted=True):
    kwargs = {'space': space, 'action_space': actions}
    env = gym.GymEnvironment('Room-v0', 1, seed=0, converted=converted,
                             pictures=True, kwargs=kwargs)
    if not converted:  # As the factory does.
      env.disable_conversions()
    config = config_lib.AgentConfig(torso='auto', hidden_size=4)
    agent = experiment.make_agent(config_lib.Config(agent=config), env)
    saved.export_agent(saved.LoadedAgent(
        agent, 1, 'ckpt-1', env.observation_spec(), config, env.interface),
                       str(tmp_path))
    return impala_tf.load_policy(str(tmp_path), deterministic=True), env

  gymnasium.register('Room-v0', _Room, disable_env_checker=True)
  _Room.shown.clear()
  yield play
  del gymnasium.registry['Room-v0']


def _act_as_in_training(agent, observations, features=()):
  """Returns actions for arrays as the torso gets them."""
  num = len(observations)
  return acting.Policy(agent, num, 0, deterministic=True).act(types.EnvOutput(
      np.zeros(num, np.uint8), np.zeros(num, np.float32), (), observations, (),
      (), features=features)).action


@pytest.mark.parametrize('space', [
    gymnasium.spaces.Box(0, 1, (4,), bool),
    gymnasium.spaces.Box(-9, 9, (3, 2), np.int8),
    gymnasium.spaces.Box(0, 9, (4,), np.int64), gymnasium.spaces.Discrete(5),
    gymnasium.spaces.MultiBinary(3), _PICTURE,
    gymnasium.spaces.Box(0, 1, (10, 10, 4), bool),
    gymnasium.spaces.Dict(a=_CHOICE, b=_PICTURE),
    gymnasium.spaces.Tuple([_CHOICE, _CHOICE])])
def test_observation_of_an_environment_is_acted_on_as_in_training(
    played, space):
  # Actions of real numbers show whatever differs.
  policy, env = played(space, gymnasium.spaces.Box(-1, 1, (2,), np.float64))
  given, seen, features = [], [], []
  for _ in range(9):
    seen.append(env.reset().observation[0].copy())
    features.append(np.copy(env.features))
    given.append(_Room.shown[-1])
  wanted = env.action_box.fit(_act_as_in_training(
      policy.loaded.agent, np.stack(seen),
      np.concatenate(features) if len(env.features) else ()))
  assert np.ptp(wanted, axis=0).min() > 1e-3
  np.testing.assert_allclose(policy.act(given), wanted, rtol=1e-5)
  policy.reset()
  np.testing.assert_allclose(policy.act(given[0]), wanted[0], rtol=1e-5)
  if not isinstance(space, gymnasium.spaces.Box) and not len(env.features):
    for converted, action in (np.stack(seen), wanted), (seen[0], wanted[0]):
      policy.reset()
      np.testing.assert_allclose(policy.act(converted), action, rtol=1e-5)


@pytest.mark.parametrize('shape', [(10, 10, 4), (4, 10, 10), (20, 20)])
def test_environment_for_policies_leaves_scaling_to_them(played, shape):
  space = gymnasium.spaces.Box(.5, .5, shape, np.float32)  # All are alike.
  policy, env = played(space, gymnasium.spaces.Box(-1, 1, (2,), np.float64))
  action = policy.act(space.sample())
  policy.reset()
  env.disable_conversions()
  np.testing.assert_allclose(
      policy.act(env.reset().observation)[0], action, rtol=1e-5)


def test_mask_that_an_observation_brings_along_is_kept(played):
  policy, _ = played(gymnasium.spaces.Dict(
      observation=gymnasium.spaces.Box(-1, 1, (2,)),
      action_mask=gymnasium.spaces.MultiBinary(3)))
  for only in range(3):
    given = {'observation': np.zeros(2), 'action_mask': np.eye(3)[only]}
    assert policy.act(given) == only
  policy.reset()
  assert policy.act([given, given]).tolist() == [2, 2]
  _refused("'observation'.* but is missing", policy.act,
           [{'action_mask': np.ones(3)}])


@pytest.mark.parametrize('converted', [True, False])
@pytest.mark.parametrize('low, high, dtype', [
    (100, 200, np.float32), (-.01, .1, np.float64), (0, 1e4, np.float16)])
def test_actions_are_in_the_box_unless_the_agent_is_of_earlier(
    played, low, high, dtype, converted):
  box = gymnasium.spaces.Box(low, high, (2,), dtype)
  policy, env = played(gymnasium.spaces.Box(-1, 1, (2,)), box, converted)
  for number in (0, 1, 1e6):
    given = np.full(2, number, np.float32)
    raw = _act_as_in_training(policy.loaded.agent, given[np.newaxis])[0]
    action = policy.act(given)
    np.testing.assert_array_equal(
        action, env.action_box.fit(raw) if converted else raw)
    assert box.contains(action) or not converted


def test_actions_of_levels_with_other_bounds_are_within_one(played):
  policy, _ = played(gymnasium.spaces.Box(-1, 1, (2,)),
                     gymnasium.spaces.Box(-1, 1, (2,)))
  mixed = policy.loaded._replace(
      interface={**policy.loaded.interface, 'actions': None})
  both = policy_lib.TrainedPolicy(mixed, deterministic=True, seed=0)
  given = np.full(2, 1e6, np.float32)
  np.testing.assert_array_equal(both.act(given), policy.act(given))


@pytest.mark.parametrize('damage', [
    {'observations': [{'os': {}}, True, 0]}, {'actions': [1]},
    {'observations': [{}]}, {'observations': [{'Box': [0, 1]}, False, 0]},
    {'observations': [{'Discrete': {'n': 'x', 'start': 0}}, False, 0]},
    {'observations': 7}, []])
def test_damaged_interface_is_refused(simple_dir, damage):
  loaded = saved.load_agent(simple_dir)._replace(interface=damage)
  _refused('description is damaged', policy_lib.TrainedPolicy, loaded, True, 0)


def test_observation_of_another_space_is_refused(simple_dir):
  policy = impala_tf.load_policy(
      simple_dir, observation_space=gymnasium.spaces.Discrete(4))
  for wrong in 4, {'a': 1}, [1, -1]:
    _refused(r'must be one of observation_space, .* it must be Discrete\(4\)',
             policy.act, wrong)
  _refused(r'must be Discrete\(4\), but is float64 \[0\]', policy.act, [])
  _refused('leave features out', policy.act, 3, features=[1.])
  assert policy.act([0, 3]).shape == (2,)


def test_arguments_that_do_not_fit_are_refused(recurrent_dir, simple_dir):
  policy = impala_tf.load_policy(simple_dir)
  for wrong, words in (
      (np.zeros(3), r'float32 \[4\], or a batch .* but this is float64 \[3\]'),
      (np.zeros((0, 4)), r'this is float64 \[0, 4\]'),
      (np.zeros(4, complex), r'this is complex128 \[4\]'),
      ('left', r'this is <U4 \[\]')):
    _refused(words, policy.act, wrong)
  policy.act(np.zeros((2, 4)))
  _refused('were a batch of 2 and now are one observation; call reset',
           policy.act, np.zeros(4))
  _refused('were a batch of 2 and now are a batch of 3', policy.act,
           np.zeros((3, 4)))
  _refused(r'where must be bool \[2\]', policy.reset, [True])
  _refused('no instruction', policy.act, np.zeros((2, 4)), instruction='go')

  policy = impala_tf.load_policy(recurrent_dir)
  _refused('no instruction', policy.act, np.zeros((2, 4)), instruction='go')
  policy.act(np.zeros(4))  # A refused call is forgotten.
  _refused(r'give it: act\(observation, reward=reward\)', policy.act,
           np.zeros(4))
  _refused('reward must be one number', policy.act, np.zeros(4), reward=[1, 2])


def test_exported_agent_is_the_same_without_slots(run_dir, tmp_path):
  loaded = saved.load_agent(run_dir)
  saved.export_agent(loaded, str(tmp_path))
  again = saved.load_agent(str(tmp_path))
  assert again._replace(agent=None) == loaded._replace(agent=None)
  for a, b in zip(again.agent.variables, loaded.agent.variables):
    np.testing.assert_array_equal(a, b)
  keys = tf.train.load_checkpoint(
      str(tmp_path / 'checkpoints' / 'ckpt-1')).get_variable_to_shape_map()
  assert not any('optimizer' in key for key in keys)


def test_policy_of_popart_is_loaded_too(tmp_path):
  path = _save(tmp_path, distributions.Categorical(2), num_tasks=3)
  assert impala_tf.load_policy(path).act(np.zeros(4)) in (0, 1)
