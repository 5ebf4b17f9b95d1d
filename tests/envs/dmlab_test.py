"""DeepMind Lab's adapter, on a stand-in: what reaches Lab, and what comes back.

The table of actions and the settings for evaluation are the paper's and its
published code's, written down here once more. dmlab_contract_test.py tries the
real one.
"""

import os
import pathlib
import sys

import dm_env
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import dmlab
from impala_tf.envs import environment
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
          level_cache_dir=None, **options):
  return dmlab.DmlabEnvironment(
      name, num_envs, seed,
      config.DmlabConfig(level_cache_dir=level_cache_dir, **options), training,
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
  assert env.frames_per_step == 4
  assert [made.level for made in lab.labs] == [
      'contributed/dmlab30/rooms_watermaze'] * 3
  made = lab.labs[0]
  assert made.config == {'width': '96', 'height': '72', 'logLevel': 'WARN'}
  assert made.renderer == 'software' and made.level_cache is None
  assert made.observed == ['RGB_INTERLEAVED']


def test_options_reach_lab(lab):
  env = _make(height=48, width=64, action_repeats=2, renderer='hardware',
              dataset_path='dummy')
  shown = env.reset().observation
  assert shown.shape == (2, 48, 64, 3)
  np.testing.assert_array_equal(env.render(), shown[0])
  _play(env, 1)
  made = lab.labs[0]
  assert made.num_steps() == 2 and made.renderer == 'hardware'
  assert made.config['datasetPath'] == 'dummy'


@pytest.mark.parametrize('action, name', list(enumerate(TABLE_D2)))
def test_action_of_table_d2_reaches_lab_for_four_frames(lab, action, name):
  env = _make()
  env.reset()
  row = env.step(np.array([action, 0], np.int32))
  assert row.reward.tolist() == [4 if name == 'Fire' else 0, 0]
  assert env.action_spec().num_values == 9
  for made, expected in zip(lab.labs, (name, 'Forward')):
    (vector, num_steps), = _calls(made, 'step')
    assert vector.dtype == np.intc and vector.flags.c_contiguous
    assert vector.tolist() == TABLE_D2[expected] and num_steps == 4


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


def test_few_episodes_come_again_in_training_and_never_in_evaluation(lab):
  seeds = {}
  for training in (True, False):
    lab.labs.clear()
    env = _make(num_envs=2, training=training, num_seeds=3)
    env.reset()
    _play(env, 10 * STEPS_AN_EPISODE)
    seeds[training] = [s for made in lab.labs for s in _seeds(made)]
  assert len(seeds[True]) == len(seeds[False]) == 22
  assert {*seeds[True]} == {0, 1, 2} and len({*seeds[False]}) == 22


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
def test_level_without_its_photographs_is_refused(lab, tmp_path, name):
  for path in (None, str(tmp_path)):
    with pytest.raises(config.ConfigError, match='DmlabConfig.dataset_path'):
      _make(name=name, dataset_path=path)
  assert not lab.labs
  _make(name=name, dataset_path='dummy').reset()


def test_level_without_its_maps_is_refused(lab, monkeypatch, tmp_path):
  monkeypatch.setattr(lab, 'runfiles_path', lambda: str(tmp_path))
  with pytest.raises(config.ConfigError, match='lacks 3 of the level.s 3 maps'):
    _make(name='natlab_fixed_large_map')
  assert not lab.labs
  _make()


def test_levels_of_labs_own_are_played_too(lab):
  for training in (True, False):
    env = dmlab.DmlabEnvironment(
        'seekavoid_arena_01', 1, 3, config.DmlabConfig(), training,
        domain_name='dmlab')
    assert env.level == 'dmlab/seekavoid_arena_01'
    assert lab.labs[-1].level == 'seekavoid_arena_01'
    env.reset()


def test_missing_zip_is_one_line(monkeypatch, tmp_path):
  # Lab ends the process if it cannot pack a map.
  monkeypatch.setenv('PATH', str(tmp_path))
  with pytest.raises(config.ConfigError, match='dmlab30/rooms.* zip.*apt-get'):
    dmlab.check_name('dmlab30', LEVEL)


def test_package_that_cannot_be_imported_is_one_line(monkeypatch, tmp_path):
  (tmp_path / 'deepmind_lab.py').write_text(
      'raise ImportError("libOSMesa.so.8: cannot open shared object file")')
  monkeypatch.delitem(sys.modules, 'deepmind_lab')
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(config.ConfigError, match=(
      'rooms_watermaze: DeepMind Lab does not start: libOSMesa.*; '
      'docs/dmlab.md')):
    _make()


def test_lab_draws_in_the_thread_that_steps_it(monkeypatch):
  monkeypatch.delenv('LP_NUM_THREADS', raising=False)
  _make()
  assert os.environ['LP_NUM_THREADS'] == '0'
  monkeypatch.setenv('LP_NUM_THREADS', '2')  # As the user has it.
  _make()
  assert os.environ['LP_NUM_THREADS'] == '2'


def test_what_lab_refuses_at_its_start_is_one_line(lab, monkeypatch):

  make = lab.Lab

  def refuse(*args, **kwargs):
    if lab.labs:
      raise RuntimeError('Failed to init environment - "a:\n\tb"')
    return make(*args, **kwargs)

  monkeypatch.setattr(lab, 'Lab', refuse)
  with pytest.raises(config.ConfigError) as error:
    _make()
  assert str(error.value) == (
      'dmlab30/rooms_watermaze: DeepMind Lab does not start: '
      'Failed to init environment - "a: b"')
  assert not lab.labs[0].close()  # It was closed already.


@pytest.mark.parametrize('method, num_steps, error', [
    ('reset', 0, OSError(28, 'No space left on device')),  # The cache's.
    ('step', 1, ValueError('Failed to advance environment "a:\n\tb"'))])
def test_error_in_play_is_one_line_with_the_level(
    lab, method, num_steps, error):
  env = _make()
  if num_steps:
    env.reset()
  lab.failures[method] = error
  with pytest.raises(environment.SimulatorError) as raised:
    _play(env, 1) if num_steps else env.reset()
  message = str(raised.value)
  assert message.startswith(
      f'dmlab30/rooms_watermaze: environment 0 (step {num_steps}) failed: ')
  assert ' '.join(str(error).split()) in message and '\n' not in message
  assert raised.value.__cause__ is error


def test_close_closes_all_and_leaves_no_files(lab):
  env = _make(name='explore_goal_locations_small')
  env.reset()
  folders = [pathlib.Path(made.temp_folder) for made in lab.labs]
  assert len({*folders}) == 2 and all((f / 'map.pk3').exists() for f in folders)
  env.close()
  assert not any(made.close() for made in lab.labs)
  assert not folders[0].parent.exists()
  env.close()


def test_map_of_a_seed_is_compiled_once_for_the_same_textures(
    lab, tmp_path, monkeypatch):
  for digest in ('one', 'one', 'other'):
    monkeypatch.setattr(
        dmlab.dmlab_files, 'compilation_digest', lambda path, d=digest: d)
    _make(name='skymaze_irreversible_path_hard',
          level_cache_dir=str(tmp_path / 'not' / 'yet')).reset()
  assert [made.calls.count('compile') for made in lab.labs] == [
      1, 1, 0, 0, 1, 1]
  assert len(list(tmp_path.glob('not/yet/*/*'))) == 4
