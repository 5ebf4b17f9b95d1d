"""DeepMind Lab's adapter, on a stand-in: what reaches Lab, and what comes back.

The table of actions and the settings for evaluation are the paper's and its
published code's, written down here once more.
"""

import sys
import threading

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf.agents import networks
from impala_tf.envs import dmlab
from impala_tf.envs import word_ids

FIRST, MID = dm_env.StepType.FIRST, dm_env.StepType.MID
LEVEL = 'rooms_watermaze'
STEPS_AN_EPISODE = 30  # Of the stand-in: 2 s at 60 frames a second, 4 a step.

# Espeholt et al. 2018, table D.2, in its order.
TABLE_D2 = {
    'Forward': [0, 0, 0, 1, 0, 0, 0],
    'Backward': [0, 0, 0, -1, 0, 0, 0],
    'Strafe Left': [0, 0, -1, 0, 0, 0, 0],
    'Strafe Right': [0, 0, 1, 0, 0, 0, 0],
    'Look Left': [-20, 0, 0, 0, 0, 0, 0],
    'Look Right': [20, 0, 0, 0, 0, 0, 0],
    'Forward + Look Left': [-20, 0, 0, 1, 0, 0, 0],
    'Forward + Look Right': [20, 0, 0, 1, 0, 0, 0],
    'Fire': [0, 0, 0, 0, 1, 0, 0],
}


@pytest.fixture(name='lab', autouse=True)
def _lab(fake_deepmind_lab):
  fake_deepmind_lab.labs.clear()
  fake_deepmind_lab.failures.clear()
  return fake_deepmind_lab


def _make(num_envs=2, seed=3, name=LEVEL, training=True, instruction_length=0,
          **knobs):
  return dmlab.DmlabEnvironment(
      name, num_envs, seed, config.DmlabConfig(**knobs), training,
      instruction_length)


def _play(env, num_steps, action=0):
  """Returns the last row of that many steps."""
  for _ in range(num_steps):
    row = env.step(np.full(env.num_envs, action, np.int32))
  return row


def _calls(lab, method):
  return [call[1:] for call in lab.calls if call[0] == method]


def test_environments_are_of_the_papers_size_and_of_the_level(lab):
  env = _make(num_envs=3)
  assert env.level == 'dmlab30/rooms_watermaze'
  assert env.observation_spec().shape == (72, 96, 3)
  assert env.observation_spec().dtype == np.uint8
  assert env.frames_per_step == 4 and env.frame_stack == 1
  assert [made.level for made in lab.labs] == [
      'contributed/dmlab30/rooms_watermaze'] * 3
  for made in lab.labs:
    assert made.config == {'width': '96', 'height': '72', 'logLevel': 'WARN'}
    assert made.renderer == 'software' and made.level_cache is None
    assert made.observed == ['RGB_INTERLEAVED']


def test_knobs_reach_lab(lab):
  env = _make(height=48, width=64, action_repeats=2, renderer='hardware',
              dataset_path='/data')
  assert env.observation_spec().shape == (48, 64, 3)
  assert env.reset().observation.shape == (2, 48, 64, 3)
  assert env.frames_per_step == 2
  _play(env, 1)
  made = lab.labs[0]
  assert made.num_steps() == 2 and made.renderer == 'hardware'
  assert made.config['datasetPath'] == '/data'


@pytest.mark.parametrize('action, name', list(enumerate(TABLE_D2)))
def test_action_of_table_d2_reaches_lab_for_four_frames(lab, action, name):
  env = _make()
  env.reset()
  env.step(np.array([action, 0], np.int32))
  assert env.action_spec().num_values == 9
  for made, expected in zip(lab.labs, (name, 'Forward')):
    (vector, num_steps), = _calls(made, 'step')
    assert vector.dtype == np.intc and vector.flags.c_contiguous
    assert vector.tolist() == TABLE_D2[expected]
    assert num_steps == 4


def test_rewards_are_raw_and_each_environments_own():
  env = _make()
  env.reset()
  row = env.step(np.array([8, 0], np.int32))  # The first fires.
  assert row.reward.tolist() == [4, 0]


def test_end_of_an_episode_is_a_termination_and_shows_the_next(lab):
  env = _make()
  env.reset()
  row = _play(env, STEPS_AN_EPISODE - 1)
  assert row.step_type.tolist() == [MID, MID]
  assert row.discount.tolist() == [1, 1]
  lab.labs[1].reset(seed=1)  # So that they end apart.
  row = _play(env, 1, action=8)
  assert row.step_type.tolist() == [FIRST, MID]
  assert row.discount.tolist() == [0, 1]
  assert row.reward.tolist() == [4, 4]  # The old episode's.
  assert lab.labs[0].num_steps() == 0
  np.testing.assert_array_equal(
      row.observation[0], lab.labs[0].observations()['RGB_INTERLEAVED'])
  assert len(_calls(lab.labs[0], 'reset')) == 2


def test_picture_is_kept_and_lab_is_not_asked_for_it(lab):
  env = _make()
  shown = env.reset().observation[0].copy()
  lab.labs[0].close()  # It would refuse.
  picture = env.render()
  np.testing.assert_array_equal(picture, shown)
  picture[...] = 0
  np.testing.assert_array_equal(env.render(), shown)


def _seeds(made):
  """Returns the seeds of a simulator's episodes, which must be ints."""
  assert {episode for episode, _ in _calls(made, 'reset')} == {-1}
  return [seed for _, seed in _calls(made, 'reset')]


def test_each_environment_has_its_own_seeds_and_they_come_again(lab):
  seeds = []
  for seed in (3, 3, 4):
    lab.labs.clear()
    env = _make(num_envs=2, seed=seed)
    env.reset()
    _play(env, 2 * STEPS_AN_EPISODE)
    seeds.append([_seeds(made) for made in lab.labs])
    assert all(type(s) is int and 0 <= s < 2**31 - 1
               for of_env in seeds[-1] for s in of_env)
  assert len({s for of_env in seeds[0] for s in of_env}) == 2 * 3
  assert seeds[0] == seeds[1]
  # Environment i has seed + i.
  assert seeds[2][0] == seeds[0][1] != seeds[2][1]


def test_instructions_are_read_only_where_they_are_asked_for(lab):
  env = _make()
  env.reset()
  assert env.instruction == ()
  env = _make(instruction_length=5)
  assert lab.labs[-1].observed == ['RGB_INTERLEAVED', 'INSTR']
  env.reset()
  for frames in (8, 0):
    # In the end that of the next episode.
    _play(env, 2 if frames else STEPS_AN_EPISODE - 2)
    assert env.instruction.tolist() == [
        word_ids.word_ids(f'find {_seeds(made)[-1]} at {frames}') + [0]
        for made in lab.labs[-2:]]


@pytest.mark.parametrize('name, played', [
    (LEVEL, LEVEL),
    ('rooms_collect_good_objects_train', 'rooms_collect_good_objects_test'),
    ('rooms_collect_good_objects_test', 'rooms_collect_good_objects_test')])
def test_evaluation_is_of_levels_that_are_held_out(lab, name, played):
  env = _make(name=name, training=False)
  assert env.level == f'dmlab30/{played}'
  assert lab.labs[0].level == f'contributed/dmlab30/{played}'
  assert lab.labs[0].config['allowHoldOutLevels'] == 'true'
  assert lab.labs[0].config['mixerSeed'] == str(0x600D5EED) == '1611489005'
  env.reset()


def test_training_is_on_no_level_that_is_held_out(lab):
  with pytest.raises(config.ConfigError, match='train on .*_objects_train'):
    _make(name='rooms_collect_good_objects_test')
  _make(name='rooms_collect_good_objects_train')
  assert lab.labs[0].level.endswith('_train')
  assert not {'allowHoldOutLevels', 'mixerSeed'} & lab.labs[0].config.keys()


@pytest.mark.parametrize('name', [
    'psychlab_arbitrary_visuomotor_mapping', 'psychlab_continuous_recognition'])
def test_level_without_its_photographs_is_refused(name):
  with pytest.raises(config.ConfigError, match='DmlabConfig.dataset_path'):
    _make(name=name)
  _make(name=name, dataset_path='/data').reset()


def test_names_are_those_of_the_suite():
  assert len(set(dmlab.NAMES)) == 32
  assert list(dmlab.NAMES) == sorted(dmlab.NAMES)
  for name in dmlab.NAMES:
    dmlab.check_name(name)


@pytest.mark.parametrize('name, hint', [
    ('room_watermaze', 'did you mean rooms_watermaze'),
    ('pong', 'such as rooms_watermaze')])
def test_unknown_name_is_refused(name, hint):
  with pytest.raises(config.ConfigError, match=f'dmlab30/{name}; .*{hint}'):
    _make(name=name)


def test_missing_package_is_one_line(monkeypatch):
  monkeypatch.setitem(sys.modules, 'deepmind_lab', None)
  for call in (_make, lambda: dmlab.check_name(LEVEL)):
    with pytest.raises(config.ConfigError) as error:
      call()
    for word in ('dmlab30/rooms_watermaze', 'package deepmind_lab',
                 'https://github.com/google-deepmind/lab'):
      assert word in str(error.value)
    assert '\n' not in str(error.value)


def test_what_lab_refuses_at_its_start_is_one_line(lab, monkeypatch):

  def refuse(self):
    if lab.labs:
      raise RuntimeError('Failed to init environment - "a:\n\tb"')

  monkeypatch.setattr(lab.Lab, '_check_settings', refuse)
  with pytest.raises(config.ConfigError) as error:
    _make()
  assert str(error.value) == (
      'dmlab30/rooms_watermaze: DeepMind Lab does not start: '
      'Failed to init environment - "a: b"')
  assert not lab.labs[0].close()  # It was closed already.


@pytest.mark.parametrize('method, error', [
    ('reset', RuntimeError('Failed to start environment - "a:\n\tb"')),
    ('reset', OSError(28, 'No space left on device')),  # The cache's.
    ('step', ValueError('Failed to advance environment "a:\n\tb"'))])
def test_error_in_play_is_one_line_with_the_level(lab, method, error):
  env = _make()
  if method == 'step':
    env.reset()
  lab.failures[method] = error
  with pytest.raises(dmlab.LabError) as raised:
    env.reset() if method == 'reset' else _play(env, 1)
  message = str(raised.value)
  assert message.startswith(
      'dmlab30/rooms_watermaze: DeepMind Lab failed in environment 0: ')
  assert ' '.join(str(error).split()) in message and '\n' not in message
  assert raised.value.__cause__ is error
  # The supervisor gives up at a UserError, and starts an actor anew at others.
  assert not isinstance(raised.value, config.UserError)


def test_error_at_the_reset_within_a_step_is_told_once(lab):
  env = _make()
  env.reset()
  _play(env, STEPS_AN_EPISODE - 1)
  lab.failures['reset'] = RuntimeError('Failed to start environment')
  with pytest.raises(dmlab.LabError) as raised:
    _play(env, 1)
  assert str(raised.value).count('dmlab30/') == 1


def test_close_closes_all(lab):
  env = _make()
  env.reset()
  env.close()
  assert not any(made.close() for made in lab.labs)


def _pk3(directory, content):
  directory.mkdir(exist_ok=True)
  path = directory / 'map.pk3'
  path.write_bytes(content)
  return str(path)


def test_map_is_compiled_once_for_all_environments_and_runs(lab, tmp_path):
  directory = tmp_path / 'not' / 'yet'
  for _ in range(2):
    _make(level_cache_dir=str(directory)).reset()
  assert [made.calls.count('compile') for made in lab.labs] == [1, 0, 0, 0]


def test_cache_gives_what_was_written_first(tmp_path):
  cache = dmlab.LevelCache(str(tmp_path / 'cache'))
  other = dmlab.LevelCache(str(tmp_path / 'cache'))
  fetched = tmp_path / 'fetched.pk3'
  assert cache.fetch('key', str(fetched)) is False
  assert not fetched.exists()
  cache.write('key', _pk3(tmp_path, b'first'))
  other.write('key', _pk3(tmp_path, b'second'))
  fetched.write_bytes(b'something longer that is replaced')
  assert other.fetch('key', str(fetched)) is True
  assert fetched.read_bytes() == b'first'
  assert other.fetch('another', str(fetched)) is False


def test_two_caches_may_write_one_key_at_once(tmp_path, monkeypatch):
  """Both copy before either renames; a reader then sees one whole map."""
  copy = dmlab.shutil.copyfile
  both_copied = threading.Barrier(2, timeout=30)
  writers = []

  def copy_and_wait(source, target):
    copy(source, target)
    if threading.current_thread() in writers:
      both_copied.wait()

  monkeypatch.setattr(dmlab.shutil, 'copyfile', copy_and_wait)
  content = b'map' * 10_000
  directory = tmp_path / 'cache'
  pk3, errors = _pk3(tmp_path / 'lab', content), []

  def write():
    try:
      dmlab.LevelCache(str(directory)).write('key', pk3)
    except Exception as error:  # pylint: disable=broad-except
      errors.append(error)

  writers.extend(threading.Thread(target=write) for _ in range(2))
  for writer in writers:
    writer.start()
  for writer in writers:
    writer.join()
  assert not errors
  fetched = tmp_path / 'fetched.pk3'
  assert dmlab.LevelCache(str(directory)).fetch('key', str(fetched))
  assert fetched.read_bytes() == content
  assert [p.name for p in directory.iterdir()] == ['key']


@pytest.mark.parametrize('ends', [True, False])
def test_half_written_map_is_never_fetched(tmp_path, monkeypatch, ends):
  cache = dmlab.LevelCache(str(tmp_path / 'cache'))
  fetched = tmp_path / 'fetched.pk3'
  found_within = []
  copy = dmlab.shutil.copyfile

  def copy_half(source, target):
    with open(target, 'wb') as file:
      file.write(b'half')
    with monkeypatch.context() as patch:
      patch.setattr(dmlab.shutil, 'copyfile', copy)
      found_within.append(cache.fetch('key', str(fetched)))
    if not ends:
      raise OSError('No space left on device')
    copy(source, target)

  with monkeypatch.context() as patch:
    patch.setattr(dmlab.shutil, 'copyfile', copy_half)
    if ends:
      cache.write('key', _pk3(tmp_path, b'whole'))
    else:
      with pytest.raises(OSError):
        cache.write('key', _pk3(tmp_path, b'whole'))
  assert found_within == [False]
  assert cache.fetch('key', str(fetched)) is ends
  assert ends or not list((tmp_path / 'cache').iterdir())


def test_cache_that_cannot_be_made_is_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(config.ConfigError, match='DmlabConfig.level_cache_dir'):
    _make(level_cache_dir=str(tmp_path / 'file' / 'cache'))


@pytest.mark.parametrize('torso', ['shallow', 'deep'])
def test_torso_takes_the_observation(torso):
  row = _make().reset()
  outputs = networks.TORSOS[torso](hidden_size=8)(tf.constant(row.observation))
  assert outputs.shape == (2, 8)
  assert np.isfinite(outputs.numpy()).all()


@pytest.mark.parametrize('arguments, error, message', [
    ({'observations': ('INSTR',)}, TypeError, 'list'),
    ({'config': {'width': 96}}, TypeError, 'bad argument type'),
    ({'observations': ['RGB']}, ValueError, "Unknown observation 'RGB'"),
    ({'renderer': 'gpu'}, RuntimeError, 'Failed to set renderer'),
    ({'config': {'width': 'wide'}}, RuntimeError, 'Failed to apply setting'),
    ({'level': 'none'}, RuntimeError, 'Invalid levelName'),
    ({'level': 'contributed/dmlab30/x_test'}, RuntimeError, 'Failed to init')])
def test_stand_in_refuses_what_lab_does(lab, arguments, error, message):
  good = {'level': 'contributed/dmlab30/x', 'observations': ['INSTR']}
  with pytest.raises(error, match=message):
    lab.Lab(**{**good, **arguments})


def test_stand_in_is_as_strict_as_lab_in_play(lab):
  made = lab.Lab('contributed/dmlab30/x', ['RGB_INTERLEAVED'])
  forward = np.array(TABLE_D2['Forward'], np.intc)
  with pytest.raises(RuntimeError, match='wrong status'):
    made.step(forward)
  with pytest.raises(ValueError, match='must be int or None'):
    made.reset(seed=np.int64(1))
  made.reset(seed=1)
  for action in (forward.astype(np.int64), forward[:6], forward[None]):
    with pytest.raises(ValueError, match='action must have'):
      made.step(action)
  made.step(forward, num_steps=120)
  assert not made.is_running()
  with pytest.raises(RuntimeError, match='wrong status'):
    made.observations()
