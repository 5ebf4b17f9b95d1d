"""What is saved comes back, and damage costs the newest checkpoint only."""

import contextlib
import dataclasses
import json
import os
import pathlib
import pickle
import resource

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import training
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions
from impala_tf.processes import learner_group
from impala_tf.storage import checkpoint
from impala_tf.storage import files
from tests.fixtures import programs

CONFIG = config_lib.Config(
    environment=config_lib.EnvironmentConfig(level='catch'),
    agent=config_lib.AgentConfig(torso='mlp', hidden_size=8, use_lstm=True,
                                 lstm_size=4))
E = 3


class _Parts:
  """What a run saves, as `experiment` puts it together."""

  def __init__(self, run_dir, seed=1, keep=3):
    environment = experiment.make_environment(CONFIG, E, seed, training=True)
    self.learner = experiment.make_learner(
        CONFIG, environment, learner_group.alone().strategy)
    self.totals = training.Totals()
    self.checkpointer = checkpoint.Checkpointer(
        str(run_dir), keep, agent=self.learner.agent, learner=self.learner,
        totals=self.totals)
    self.environment = environment

  @property
  def variables(self):
    return [*self.learner.variables, *self.totals.variables]

  def randomise(self, seed):
    """Gives every variable values that nothing else would."""
    rng = np.random.default_rng(seed)
    for v in self.variables:
      v.assign(tf.cast(rng.integers(1, 1000, v.shape), v.dtype))
    return self.values()

  def values(self):
    return [v.numpy() for v in self.variables]


def _assert_equal(actual, expected):
  assert len(actual) == len(expected)
  for a, b in zip(actual, expected):
    np.testing.assert_array_equal(a, b)


def _files(run_dir, number):
  directory = pathlib.Path(run_dir, 'checkpoints')
  return (directory / f'ckpt-{number}.index',
          directory / f'ckpt-{number}.data-00000-of-00001')


@pytest.fixture(name='saved')
def _saved(tmp_path):
  """A run with checkpoints 5 and 12; yields the values of both."""
  parts = _Parts(tmp_path)
  values = {}
  for number in (5, 12):
    values[number] = parts.randomise(number)
    parts.checkpointer.save(number)
  return values


def test_everything_comes_back(saved, tmp_path):
  parts = _Parts(tmp_path, seed=2)
  path = parts.checkpointer.restore()
  assert path == str(tmp_path / 'checkpoints' / 'ckpt-12')
  _assert_equal(parts.values(), saved[12])
  # Among it: parameters, both slots of each, counters and totals.
  num_parameters = len(parts.learner.agent.trainable_variables)
  assert len(saved[12]) == 3 * num_parameters + 4
  for variable in (parts.learner.num_frames, parts.learner.num_updates,
                   parts.totals.secs, parts.totals.best_return,
                   *parts.learner.optimizer.mean_squares,
                   *parts.learner.optimizer.momenta):
    assert any(variable is v for v in parts.variables)


def test_fresh_directory_has_nothing_to_restore(tmp_path):
  parts = _Parts(tmp_path)
  before = parts.values()
  assert parts.checkpointer.restore() is None
  _assert_equal(parts.values(), before)
  assert not (tmp_path / 'checkpoints').exists()


def test_a_resumed_run_can_be_resumed_again(saved, tmp_path):
  del saved
  parts = _Parts(tmp_path)
  parts.checkpointer.restore()
  values = parts.randomise(20)
  parts.checkpointer.save(20)
  again = _Parts(tmp_path)
  assert again.checkpointer.restore().endswith('ckpt-20')
  _assert_equal(again.values(), values)


def test_only_the_newest_are_kept(tmp_path):
  parts = _Parts(tmp_path, keep=2)
  for number in (1, 2, 9, 10):
    parts.checkpointer.save(number)
  names = {p.name for p in (tmp_path / 'checkpoints').glob('*.index')}
  assert names == {'ckpt-9.index', 'ckpt-10.index'}


def _cut_index(index, data):
  del data
  index.write_bytes(index.read_bytes()[:index.stat().st_size // 2])


def _empty_index(index, data):
  del data
  index.write_bytes(b'')


def _cut_data(index, data):
  del index
  data.write_bytes(data.read_bytes()[:data.stat().st_size // 2])


def _no_data(index, data):
  del index
  data.unlink()


def _flip_index(index, data):
  del data
  content = bytearray(index.read_bytes())
  content[len(content) // 3] ^= 0xff
  index.write_bytes(content)


def _flip_data(index, data):
  del index
  content = bytearray(data.read_bytes())
  content[len(content) // 3] ^= 0xff
  data.write_bytes(content)


def _other_run(index, data):
  """Whole, but of a network of another size."""
  environment = experiment.make_environment(CONFIG, 1, 0, training=True)
  agent = agent_lib.Agent(
      distributions.Categorical(3),
      config_lib.AgentConfig(torso='mlp', hidden_size=4))
  agent.build(environment.observation_spec())
  path = str(index.with_suffix(''))
  data.unlink()
  tf.train.Checkpoint(agent=agent).write(path)


_DAMAGES = (_cut_index, _empty_index, _cut_data, _no_data, _flip_index,
            _flip_data, _other_run)


@pytest.mark.parametrize('damage', _DAMAGES)
def test_damaged_newest_is_said_and_the_one_before_taken(
    saved, tmp_path, damage, caplog):
  damage(*_files(tmp_path, 12))
  parts = _Parts(tmp_path, seed=2)
  assert parts.checkpointer.restore().endswith('ckpt-5')
  _assert_equal(parts.values(), saved[5])
  message, = [r.getMessage() for r in caplog.records
              if r.levelname == 'ERROR']
  assert 'ckpt-12 is damaged, trying the one before' in message
  assert '\n' not in message


def test_all_damaged_is_an_error_of_one_line(saved, tmp_path):
  del saved
  for number in (5, 12):
    _cut_index(*_files(tmp_path, number))
  with pytest.raises(checkpoint.CheckpointError) as raised:
    _Parts(tmp_path).checkpointer.restore()
  message = str(raised.value)
  assert 'all 2 checkpoints' in message and str(tmp_path) in message
  assert 'put back a good copy, or choose another run directory' in message
  assert '\n' not in message


def test_after_damage_the_next_one_saved_is_the_newest(saved, tmp_path):
  del saved
  _flip_data(*_files(tmp_path, 12))
  parts = _Parts(tmp_path)
  parts.checkpointer.restore()
  values = parts.randomise(13)
  parts.checkpointer.save(12)  # Learned anew to where it was.
  again = _Parts(tmp_path)
  assert again.checkpointer.restore().endswith('ckpt-12')
  _assert_equal(again.values(), values)


def test_kill_while_writing_leaves_the_one_before(saved, tmp_path):
  # What TensorFlow leaves: shards under other names, and no index yet.
  index, data = _files(tmp_path, 12)
  leftovers = tmp_path / 'checkpoints' / 'ckpt-20_temp'
  leftovers.mkdir()
  (leftovers / 'part-00000-of-00001.data-00000-of-00001').write_bytes(b'half')
  (leftovers / 'part-00000-of-00001.index.tempstate1').write_bytes(b'half')
  directory = tmp_path / 'checkpoints'
  (directory / 'ckpt-20.data-00000-of-00001').write_bytes(data.read_bytes())
  (directory / 'ckpt-20.index.tempstate7').write_bytes(index.read_bytes())
  (directory / 'checkpoint.tmp8').write_text('half')
  parts = _Parts(tmp_path)
  assert parts.checkpointer.restore().endswith('ckpt-12')
  _assert_equal(parts.values(), saved[12])
  assert {path.name for path in directory.iterdir()} == {
      'checkpoint', *(p.name for n in (5, 12) for p in _files(tmp_path, n))}
  values = parts.randomise(20)
  parts.checkpointer.save(20)
  again = _Parts(tmp_path)
  again.checkpointer.restore()
  _assert_equal(again.values(), values)


def test_checkpoint_killed_before_it_was_listed_does_not_stay_for_ever(
    tmp_path):
  parts = _Parts(tmp_path)
  state = tmp_path / 'checkpoints' / 'checkpoint'
  for number in (1, 2, 3, 4):
    values = parts.randomise(number)
    parts.checkpointer.save(number)
    if number == 1:  # As if this one alone had been listed.
      listed = state.read_text()
      parts = _Parts(tmp_path, keep=9)
  state.write_text(listed)
  again = _Parts(tmp_path, keep=2)
  assert again.checkpointer.restore().endswith('ckpt-4')
  _assert_equal(again.values(), values)
  numbers = {path.name for path in (tmp_path / 'checkpoints').glob('*.index')}
  assert numbers == {'ckpt-1.index', 'ckpt-3.index', 'ckpt-4.index'}


@contextlib.contextmanager
def _largest_file(size):
  """Lets this process write no larger files (bytes), as on a full disk."""
  limits = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize('size', [0, 1, 500, 2_000])
def test_failed_save_is_an_error_and_leaves_the_others(saved, tmp_path, size):
  assert size < _files(tmp_path, 12)[1].stat().st_size
  parts = _Parts(tmp_path, keep=2)
  parts.checkpointer.restore()
  before = {p.name for p in (tmp_path / 'checkpoints').iterdir()}
  parts.randomise(20)
  with _largest_file(size):
    with pytest.raises(OSError, match='checkpoint 20 could not be written to'):
      parts.checkpointer.save(20)
  assert {p.name for p in (tmp_path / 'checkpoints').iterdir()} == before
  again = _Parts(tmp_path)
  assert again.checkpointer.restore().endswith('ckpt-12')
  _assert_equal(again.values(), saved[12])
  parts.checkpointer.save(21)  # There is room again.
  assert _Parts(tmp_path).checkpointer.restore().endswith('ckpt-21')


def test_tensorflows_state_file_is_not_trusted(saved, tmp_path):
  state = tmp_path / 'checkpoints' / 'checkpoint'
  for content in (None, 'nonsense {', 'model_checkpoint_path: "ckpt-99"\n'):
    state.unlink()
    if content is not None:
      state.write_text(content)
    parts = _Parts(tmp_path, seed=2)
    assert parts.checkpointer.restore().endswith('ckpt-12')
    _assert_equal(parts.values(), saved[12])
    parts.checkpointer.save(12)


# Agents alone.


def _describe(run_dir, parts):
  environment = parts.environment
  checkpoint.describe_agent(
      str(run_dir), distributions.of_actions(environment.action_spec()),
      environment.observation_spec(), CONFIG.agent)


def _logits(agent):
  """Of a few boards, with memory."""
  rng = np.random.default_rng(7)
  board = tf.constant(rng.random((2, E, 10, 5)), tf.float32)
  zeros = tf.zeros((2, E))
  step_type = tf.constant(int(dm_env.StepType.MID), tf.uint8, (2, E))
  outputs = agent.unroll(
      types.EnvOutput(step_type, zeros, zeros, board, zeros, zeros),
      tf.zeros((2, E), tf.int32), agent.initial_state(E))
  return outputs.policy_logits.numpy()


def test_loaded_agent_is_the_saved_one(tmp_path):
  parts = _Parts(tmp_path)
  _describe(tmp_path, parts)
  parts.learner.num_frames.assign(1234)
  parts.checkpointer.save(3)
  expected = _logits(parts.learner.agent)
  tf.random.set_seed(99)  # Whatever it is initialised with must not matter.
  loaded = checkpoint.load_agent(str(tmp_path))
  assert loaded.num_frames == 1234
  np.testing.assert_array_equal(_logits(loaded.agent), expected)
  # From before a damage, too.
  parts.learner.num_frames.assign(2345)
  parts.checkpointer.save(4)
  _cut_index(*_files(tmp_path, 4))
  loaded = checkpoint.load_agent(str(tmp_path))
  assert loaded.num_frames == 1234
  np.testing.assert_array_equal(_logits(loaded.agent), expected)


def test_loaded_agent_of_continuous_actions_is_the_saved_one(tmp_path):
  policy = distributions.Gaussian(2)
  agent_config = config_lib.AgentConfig(torso='mlp', hidden_size=4)
  agent = agent_lib.Agent(policy, agent_config)
  spec = dm_env.specs.Array((10, 5), np.float32)
  agent.build(spec)
  learner = tf.Module()
  learner.num_frames = tf.Variable(77, dtype=tf.int64)
  checkpoint.describe_agent(str(tmp_path), policy, spec, agent_config)
  checkpoint.Checkpointer(
      str(tmp_path), 2, agent=agent, learner=learner).save(1)
  loaded = checkpoint.load_agent(str(tmp_path))
  assert loaded.num_frames == 77 and loaded.agent.distribution == policy
  np.testing.assert_array_equal(_logits(loaded.agent), _logits(agent))


def test_directory_of_no_run_has_no_agent(tmp_path):
  with pytest.raises(checkpoint.CheckpointError, match='directory of a run'):
    checkpoint.load_agent(str(tmp_path))


def test_run_without_a_checkpoint_has_no_agent_yet(tmp_path):
  _describe(tmp_path, _Parts(tmp_path))
  with pytest.raises(checkpoint.CheckpointError, match='train first'):
    checkpoint.load_agent(str(tmp_path))


@pytest.mark.parametrize('content', ['', '{"num_actions": 3}', 'nonsense'])
def test_damaged_description_is_an_error_of_one_line(tmp_path, content):
  _describe(tmp_path, _Parts(tmp_path))
  path = tmp_path / 'checkpoints' / 'agent.json'
  assert json.loads(path.read_text())['num_actions'] == 3
  path.write_text(content)
  with pytest.raises(checkpoint.CheckpointError, match='is damaged') as raised:
    checkpoint.load_agent(str(tmp_path))
  assert '\n' not in str(raised.value)


@pytest.mark.parametrize('knobs, words', [
    ({'instruction_length': 16}, 'instruction_length 0 and not 16;'),
    ({'lstm_size': 5}, 'lstm_size 4 and not 5;')])
def test_checkpoints_of_another_agent_are_refused(tmp_path, knobs, words):
  parts = _Parts(tmp_path)
  other = dataclasses.replace(CONFIG.agent, **knobs)

  def describe(config):
    checkpoint.describe_agent(
        str(tmp_path), distributions.Categorical(3),
        parts.environment.observation_spec(), config)

  describe(other)
  describe(CONFIG.agent)  # There is nothing that would be lost.
  parts.checkpointer.save(1)
  path = tmp_path / 'checkpoints' / 'agent.json'
  description = json.loads(path.read_text())
  del description['config']['instruction_length']  # From before there was any.
  path.write_text(json.dumps(description))
  describe(CONFIG.agent)
  with pytest.raises(checkpoint.CheckpointError, match=words) as raised:
    describe(other)
  assert '\n' not in str(raised.value)
  assert checkpoint.load_agent(
      str(tmp_path)).agent.distribution == distributions.Categorical(3)


# Checkpoints of strangers.

# Loads one run and then another, and prints what of this Python told of while
# it loaded the second: the first has had imported and compiled what is needed.
_WATCHED = """
import json, sys
from impala_tf.storage import checkpoint
seen = []
watching = False
def watch(event, arguments):
  if watching and event.startswith((
      'exec', 'compile', 'import', 'marshal', 'pickle', 'subprocess',
      'os.exec', 'os.fork', 'os.posix_spawn', 'os.system', 'ctypes', 'code',
      'socket', 'function', 'cpython.run')):
    seen.append(f'{event} {arguments}'[:300])
sys.addaudithook(watch)
checkpoint.load_agent(sys.argv[1])
watching = True
loaded = checkpoint.load_agent(sys.argv[2])
watching = False
print(json.dumps([loaded.num_frames, seen]))
"""


class _Bomb:
  """Runs a command wherever it is unpickled."""

  def __init__(self, trace):
    self._trace = str(trace)

  def __reduce__(self):
    return os.system, (f'touch {self._trace}',)


class _PickledState(tf.train.experimental.PythonState):
  """As careless programs have it in their checkpoints."""

  def __init__(self, content):
    self._content = content

  def serialize(self):
    return pickle.dumps(self._content)

  def deserialize(self, string_value):
    pickle.loads(string_value)


def test_loading_parameters_runs_nothing_of_them(tmp_path):
  trace, good, bad = (tmp_path / name for name in ('trace', 'good', 'bad'))
  parts = _Parts(good)
  _describe(good, parts)
  parts.checkpointer.save(1)
  parts.learner.num_frames.assign(77)
  _describe(bad, parts)
  # Under a name of its own, and where parts of ours belong.
  parts.learner.agent.bomb = _PickledState(_Bomb(trace))
  tf.train.Checkpoint(
      agent=parts.learner.agent, learner=parts.learner, totals=parts.totals,
      bomb=_PickledState(_Bomb(trace)),
  ).save(str(bad / 'checkpoints' / 'ckpt'))  # ckpt-1
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


@pytest.mark.parametrize('change', [
    {'config': {'torso': "__import__('os').abort()"}},
    {'config': {'__class__': 'os.system'}},
    {'config': {'hidden_size': {'py/object': 'os.system'}}},
    {'observation_dtype': 'os.system'}, {'observation_shape': 'abc'}])
def test_description_of_an_agent_is_data(tmp_path, change):
  parts = _Parts(tmp_path)
  _describe(tmp_path, parts)
  path = tmp_path / 'checkpoints' / 'agent.json'
  path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
  with pytest.raises(checkpoint.CheckpointError, match='is damaged'):
    checkpoint.load_agent(str(tmp_path))


# Behind a URL.


def _cut(path):
  content = files.read(path)
  files.write(path, content[:len(content) // 2])


def test_behind_a_url_damage_costs_the_newest_only_and_remains_go(tmp_path):
  url = f'ram:/{tmp_path}'
  parts = _Parts(url)
  _describe(url, parts)
  values = {}
  for number in (5, 12):
    values[number] = parts.randomise(number)
    parts.checkpointer.save(number)
  directory = f'{url}/checkpoints'
  whole = files.names(directory)
  files.make_directory(f'{directory}/ckpt-20_temp')
  for name in ('ckpt-20_temp/part-0', 'ckpt-20.data-00000-of-00001',
               'ckpt-20.index.tempstate7', 'checkpoint.tmp8'):
    files.write(f'{directory}/{name}', b'half')
  again = _Parts(url, seed=2)
  assert again.checkpointer.restore() == f'{directory}/ckpt-12'
  _assert_equal(again.values(), values[12])
  assert files.names(directory) == whole
  _cut(f'{directory}/ckpt-12.index')
  assert again.checkpointer.restore() == f'{directory}/ckpt-5'
  _assert_equal(again.values(), values[5])
  assert checkpoint.load_agent(url).num_frames == (
      int(again.learner.num_frames))


def test_store_that_does_not_answer_is_no_damage(tmp_path, monkeypatch):
  url = f'ram:/{tmp_path}'
  parts = _Parts(url)
  for number in (5, 12):
    parts.checkpointer.save(number)

  def fail(*unused):
    raise tf.errors.UnavailableError(None, None, 'no route\nto the bucket')

  with monkeypatch.context() as patch:
    patch.setattr(tf.train.Checkpoint, 'restore', fail)
    with pytest.raises(files.RemoteError, match='ckpt-12: no route to the'):
      parts.checkpointer.restore()
  assert parts.checkpointer.restore().endswith('ckpt-12')
