"""Agents that are loaded from a run, and strangers' files that do nothing."""

import dataclasses
import json
import os
import pickle

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import saved
from impala_tf.maths import distributions
from impala_tf.storage import checkpoint
from tests.fixtures import programs
from tests.fixtures import saved_parts


def _logits(agent):
  """Computes an agent's logits of a few boards, with memory."""
  rng = np.random.default_rng(7)
  shape = 2, saved_parts.E
  board = tf.constant(rng.random((*shape, 10, 5)), tf.float32)
  zeros = tf.zeros(shape)
  step_type = tf.constant(int(dm_env.StepType.MID), tf.uint8, shape)
  outputs = agent.unroll(
      types.EnvOutput(step_type, zeros, zeros, board, zeros, zeros),
      tf.zeros(shape, tf.int32), agent.initial_state(saved_parts.E))
  return outputs.policy_logits.numpy()


def test_loaded_agent_is_the_saved_one(tmp_path):
  parts = saved_parts.Parts(tmp_path)
  saved_parts.describe(tmp_path, parts)
  parts.learner.num_frames.assign(1234)
  parts.checkpointer.save(3)
  expected = _logits(parts.learner.agent)
  tf.random.set_seed(99)  # Whatever it is initialised with must not matter.
  loaded = saved.load_agent(str(tmp_path))
  assert loaded.num_frames == 1234
  np.testing.assert_array_equal(_logits(loaded.agent), expected)
  # From before a damage, too.
  parts.learner.num_frames.assign(2345)
  parts.checkpointer.save(4)
  saved_parts.cut_index(*saved_parts.checkpoint_files(tmp_path, 4))
  loaded = saved.load_agent(str(tmp_path))
  assert loaded.num_frames == 1234
  np.testing.assert_array_equal(_logits(loaded.agent), expected)


def test_loaded_agent_of_nested_observations_is_the_saved_one(tmp_path):
  policy = distributions.MultiCategorical((3, 2))
  agent_config = config_lib.AgentConfig(
      hidden_size=4, normalise_observations=True)
  agent = agent_lib.Agent(policy, agent_config)
  spec = dm_env.specs.Array((20, 20, 1), np.uint8)
  agent.build(spec, num_features=3, has_action_mask=True)
  rng = np.random.default_rng(0)
  env_output = tf.nest.map_structure(tf.constant, types.EnvOutput(
      np.ones([1, 2], np.uint8), *np.zeros([2, 1, 2], np.float32),
      rng.integers(256, size=[1, 2, 20, 20, 1], dtype=np.uint8),
      *np.zeros([2, 1, 2], np.float32), (),
      rng.normal(9, 2, [1, 2, 3]).astype(np.float32),
      np.array([[[1, 0, 1, 0, 1], [1, 1, 1, 1, 1]]], np.uint8)))
  # Moments move as they do in an update.
  agent.normaliser.update(agent.observation_totals(
      tf.nest.map_structure(lambda t: tf.repeat(t, 2, axis=0), env_output)))
  learner = tf.Module()
  learner.num_frames = tf.Variable(77, dtype=tf.int64)
  saver = checkpoint.Checkpointer(
      str(tmp_path), 2, agent=agent, learner=learner)
  for _ in range(2):  # When it is resumed, too.
    saved.describe_agent(str(tmp_path), agent, spec, agent_config)
    saver.save(1)
  loaded = saved.load_agent(str(tmp_path)).agent
  assert loaded.distribution == policy
  assert (loaded.num_features, loaded.has_action_mask) == (3, True)
  actions = tf.zeros([1, 2, 2], tf.int32)
  for x, y in zip(loaded.unroll(env_output, actions, ()),
                  agent.unroll(env_output, actions, ())):
    np.testing.assert_array_equal(x, y)
  agent.build(spec, num_features=4)
  with pytest.raises(config_lib.UserError, match='num_features 3 and no'
                     't 4, has_action_mask True and not False; give the same'):
    saved.describe_agent(str(tmp_path), agent, spec, agent_config)


def test_directory_without_a_checkpoint_has_no_agent(tmp_path):
  with pytest.raises(config_lib.UserError, match='directory of a run'):
    saved.load_agent(str(tmp_path))
  saved_parts.describe(tmp_path, saved_parts.Parts(tmp_path))
  with pytest.raises(config_lib.UserError, match='train first'):
    saved.load_agent(str(tmp_path))


@pytest.mark.parametrize('options, words', [
    ({'instruction_length': 16}, 'instruction_length 0 and not 16;'),
    ({'lstm_size': 5}, 'lstm_size 4 and not 5;')])
def test_checkpoints_of_another_agent_are_refused(tmp_path, options, words):
  parts = saved_parts.Parts(tmp_path)
  other = dataclasses.replace(saved_parts.CONFIG.agent, **options)

  def describe(config):
    saved.describe_agent(str(tmp_path), parts.learner.agent,
                         parts.environment.observation_spec(), config)

  describe(other)
  describe(saved_parts.CONFIG.agent)  # There is nothing that would be lost.
  parts.checkpointer.save(1)
  path = tmp_path / 'checkpoints' / 'agent.json'
  description = json.loads(path.read_text())
  # From before there were any.
  del description['config']['instruction_length']
  del description['num_features'], description['has_action_mask']
  path.write_text(json.dumps(description))
  describe(saved_parts.CONFIG.agent)
  with pytest.raises(config_lib.UserError, match=words):
    describe(other)
  assert saved.load_agent(
      str(tmp_path)).agent.distribution == distributions.Categorical(3)


# Checkpoints of strangers.

# Loads one run and then another, and prints the audit events of the second. The
# first has imported and compiled everything.
_WATCHED = """
import json, sys
from impala_tf.agents import saved
seen = []
watching = False
def watch(event, arguments):
  if watching and event.startswith((
      'exec', 'compile', 'import', 'marshal', 'pickle', 'subprocess',
      'os.exec', 'os.fork', 'os.posix_spawn', 'os.system', 'ctypes', 'code',
      'socket', 'function', 'cpython.run')):
    seen.append(f'{event} {arguments}'[:300])
sys.addaudithook(watch)
saved.load_agent(sys.argv[1])
watching = True
loaded = saved.load_agent(sys.argv[2])
watching = False
print(json.dumps([loaded.num_frames, seen]))
"""


class _Bomb:
  """An object that runs a command wherever it is unpickled."""

  def __init__(self, trace):
    self._trace = str(trace)

  def __reduce__(self):
    return os.system, (f'touch {self._trace}',)


class _PickledState(tf.train.experimental.PythonState):
  """A pickled state, such as careless programs put into checkpoints."""

  def __init__(self, content):
    self._content = content

  def serialize(self):
    return pickle.dumps(self._content)

  def deserialize(self, string_value):
    pickle.loads(string_value)


@pytest.mark.slow
def test_loading_parameters_runs_nothing_of_them(tmp_path):
  trace, good, bad = (tmp_path / name for name in ('trace', 'good', 'bad'))
  parts = saved_parts.Parts(good)
  saved_parts.describe(good, parts)
  parts.checkpointer.save(1)
  parts.learner.num_frames.assign(77)
  saved_parts.describe(bad, parts)
  # Under another name, and in the place of our parts.
  parts.learner.agent.bomb = _PickledState(_Bomb(trace))
  tf.train.Checkpoint(**parts.modules, bomb=_PickledState(_Bomb(trace))).save(
      str(bad / 'checkpoints' / 'ckpt'))  # ckpt-1
  (bad / 'checkpoints' / 'checkpoint.pkl').write_bytes(
      pickle.dumps(_Bomb(trace)))
  with programs.running('-c', _WATCHED, good, bad) as process:
    output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert process.returncode == 0, errors
  num_frames, seen = json.loads(output.splitlines()[-1])
  assert num_frames == 77
  assert not seen
  assert not trace.exists()
  _PickledState(None).deserialize(pickle.dumps(_Bomb(trace)))
  assert trace.exists()  # It would have gone off.


class _Own(agent_lib.Agent):
  """An agent of a user's algorithm."""
  kind = 'own'


def test_agent_of_a_users_class_is_not_taken_for_another(tmp_path):
  parts = saved_parts.Parts(tmp_path)
  parts.learner.agent.__class__ = _Own
  saved_parts.describe(tmp_path, parts)
  with pytest.raises(config_lib.UserError, match=(
      "agent.json: agents of the class _Own, a user's, cannot be loaded")):
    saved.load_agent(str(tmp_path))


@pytest.mark.parametrize('change, words', [
    ('nonsense', 'is damaged'),
    ({'config': {'torso': "__import__('os').abort()"}},
     'import.* is known once the file that registers it was imported'),
    ({'config': {'__class__': 'os.system'}}, 'is damaged'),
    ({'config': {'hidden_size': {'py/object': 'os.system'}}}, 'is damaged'),
    ({'observation_dtype': 'os.system'}, 'is damaged')])
def test_description_of_an_agent_is_data(tmp_path, change, words):
  saved_parts.describe(tmp_path, saved_parts.Parts(tmp_path))
  path = tmp_path / 'checkpoints' / 'agent.json'
  text = change if isinstance(change, str) else json.dumps(
      {**json.loads(path.read_text()), **change})
  path.write_text(text)
  with pytest.raises(config_lib.UserError, match=words):
    saved.load_agent(str(tmp_path))
