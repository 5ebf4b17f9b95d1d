"""A directory belongs to one run, and to one process at a time."""

import dataclasses
import errno
import re
from unittest import mock

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import run_directory
from impala_tf.storage import files
from tests.fixtures import configs

CONFIG = config_lib.Config(
    environment=config_lib.EnvironmentConfig(level='catch'))
OTHER = config_lib.Config(
    environment=config_lib.EnvironmentConfig(level='atari/pong'))


def _refused(path, config, words):
  with pytest.raises(config_lib.UserError, match=words):
    with run_directory.claim(str(path), config):
      pytest.fail('it was let in')


@pytest.fixture(params=['', 'ram:/'], name='place')
def _place(request, tmp_path):
  """Returns a directory that does not exist; only TensorFlow sees ram://."""
  return f'{request.param}{tmp_path}/a/b'


def test_directory_is_made_with_its_config_resumed_and_has_one_owner(place):
  for is_there in (False, True):
    with run_directory.claim(place, CONFIG) as resuming:
      assert resuming == is_there
      assert gin_config.load(f'{place}/config.gin') == CONFIG
      if '://' not in place:
        _refused(place, CONFIG, 'another process is training in ')
  _refused(place, OTHER, r"EnvironmentConfig.level \('catch', now 'atari.*"
           '--allow_changes to go on with these changes')
  assert set(files.names(place)) <= {'config.gin', 'history.jsonl', '.lock'}


def test_file_system_without_locks_is_refused(tmp_path):
  error = OSError(errno.ENOLCK, 'No locks available')
  with mock.patch('fcntl.flock', side_effect=error):
    _refused(str(tmp_path), CONFIG, 'cannot be locked .No locks available.; ch')


@pytest.mark.parametrize('names', [(), ('.lock', 'config.gin.new')])
def test_directory_that_is_empty_or_of_a_killed_start_will_do(tmp_path, names):
  for name in names:
    (tmp_path / name).write_text('half a con')
  with run_directory.claim(str(tmp_path), CONFIG) as resuming:
    assert not resuming
  assert gin_config.load(str(tmp_path / 'config.gin')) == CONFIG


# Changes.


def _with(config, name, value):
  """Returns the config with one value, 'section.option', changed."""
  section, _, option = name.partition('.')
  return config.replaced(section, **{option: value})


CHANGED = _with(CONFIG, 'optimizer.learning_rate', 1e-3)


def test_learning_and_operation_may_change():
  for name, value in (
      ('optimizer.learning_rate', 1e-4), ('impala.entropy_cost', 0.1),
      ('experiment.total_frames', 10), ('actor.num_actors', 3),
      ('learner.unroll_length', 10), ('replay.replay_fraction', 0.5),
      ('dmlab.dataset_path', '/a')):
    run_directory.check_changes(CONFIG, _with(CONFIG, name, value))


def test_nothing_of_games_and_network_may_change():
  """Whatever options there are: new ones are refused until someone decides."""
  for section in ('environment', 'atari', 'dmlab', 'vizdoom', 'agent'):
    values = getattr(OTHER, section)
    for field in dataclasses.fields(values):
      name = f'{type(values).__name__}.{field.name}'
      if name in ('DmlabConfig.dataset_path', 'DmlabConfig.level_cache_dir'):
        continue
      value = configs.other_than_default(field, getattr(values, field.name))
      with pytest.raises(config_lib.ConfigError, match=(
          f'these cannot change within a run: {name} ')):
        run_directory.check_changes(
            OTHER, _with(OTHER, f'{section}.{field.name}', value))


@pytest.mark.parametrize('name, value', [
    ('experiment.algorithm', 'impala_popart'), ('experiment.seed', 5),
    ('learner.num_learners', 2), ('optimizer.bias_correction', True),
    ('optimizer.max_gradient_norm', 40.)])
def test_values_that_change_the_meaning_of_others_may_not_change(name, value):
  changed = _with(CONFIG, name, value)
  for old, new in (CONFIG, changed), (changed, CONFIG):
    with pytest.raises(config_lib.ConfigError, match=name.partition('.')[2]):
      run_directory.check_changes(old, new)


def test_replay_on_disk_keeps_its_form():
  replaying = _with(CONFIG, 'replay.replay_fraction', 0.5)
  kept = _with(replaying, 'replay.survives_resume', True)
  run_directory.check_changes(replaying, kept)
  for name, value in (('learner.unroll_length', 10),
                      ('replay.capacity_unrolls', 50),
                      ('replay.replay_fraction', 0.25),
                      ('replay.sampling', 'episodes'),
                      ('replay.episode_unrolls', 8),
                      ('replay.priority_exponent', 0.5),
                      ('replay.survives_resume', False)):
    run_directory.check_changes(replaying, _with(replaying, name, value))
    with pytest.raises(config_lib.ConfigError, match=name.partition('.')[2]):
      run_directory.check_changes(kept, _with(kept, name, value))
  run_directory.check_changes(kept, _with(kept, 'learner.batch_size', 16))


def _config(path):
  return gin_config.load(str(path / 'config.gin'))


def test_allowed_changes_are_written_noted_and_said(tmp_path, capsys):
  with run_directory.claim(str(tmp_path), CONFIG, allow_changes=True):
    begun, = history.read(str(tmp_path))
  _learn(tmp_path, 8, 12)
  with run_directory.claim(str(tmp_path), CHANGED, True) as resuming:
    assert resuming
    assert _config(tmp_path) == CHANGED
  change = 'OptimizerConfig.learning_rate (0.0006, now 0.001)'
  _, started, entry = history.read(str(tmp_path))
  # Programs may differ, the machine and the code of a test do not.
  assert started['machine'] == begun['machine']
  assert started['commit'] == begun['commit'] and started['command']
  assert entry['changed'] == [change] and entry['checkpoint'] == 'ckpt-12'
  assert capsys.readouterr().out == (
      f'New config (see {tmp_path}/history.jsonl): {change}\n')
  with run_directory.claim(str(tmp_path), CHANGED):  # It is the run's own now.
    pass
  assert _num_changes(tmp_path) == 1


def _num_changes(path):
  return sum('changed' in entry for entry in history.read(str(path)))


def test_refused_changes_leave_all_as_it_was(tmp_path):
  with run_directory.claim(str(tmp_path), CONFIG):
    pass
  both = _with(_with(CHANGED, 'environment.level', 'atari/pong'),
               'agent.use_lstm', True)
  with pytest.raises(config_lib.ConfigError, match=(
      r"within a run: EnvironmentConfig.level \('catch', now 'atari/pong'\), "
      r'AgentConfig.use_lstm \(False, now True\);')):
    with run_directory.claim(str(tmp_path), both, allow_changes=True):
      pytest.fail('it was let in')
  assert _config(tmp_path) == CONFIG
  assert len(history.read(str(tmp_path))) == 1  # The first start.


def _learn(path, *numbers):
  (path / 'checkpoints').mkdir(exist_ok=True)
  for number in numbers:
    (path / 'checkpoints' / f'ckpt-{number}.index').touch()


def test_the_best_checkpoint_counts_if_no_other_is_left(tmp_path):
  _learn(tmp_path, 8)
  (tmp_path / 'checkpoints' / 'best-1000.index').touch()
  assert run_directory.newest_checkpoint(str(tmp_path)) == 8
  (tmp_path / 'checkpoints' / 'ckpt-8.index').unlink()
  assert run_directory.newest_checkpoint(str(tmp_path)) == 1000


@pytest.mark.parametrize('has_learned', [False, True])
def test_changes_that_the_learner_refuses_are_taken_back(tmp_path, has_learned):
  with run_directory.claim(str(tmp_path), CONFIG):
    _learn(tmp_path, 8)
  with pytest.raises(config_lib.UserError, match='no such thing'):
    with run_directory.claim(str(tmp_path), CHANGED, allow_changes=True):
      if has_learned:  # Then the checkpoint is of the changed config.
        _learn(tmp_path, 9)
      raise config_lib.UserError('no such thing')
  assert _config(tmp_path) == (CHANGED if has_learned else CONFIG)
  assert _num_changes(tmp_path) == has_learned
  starts = [e for e in history.read(str(tmp_path)) if 'command' in e]
  assert len(starts) == 1 + has_learned


def test_run_is_resumed_by_its_own_config_unless_another_is_given(tmp_path):
  assert run_directory.config_path(None, None) is None
  assert run_directory.config_path(None, str(tmp_path)) is None
  own = tmp_path / 'config.gin'
  own.touch()
  assert run_directory.config_path(None, str(tmp_path)) == str(own)
  assert run_directory.config_path('a.gin', str(tmp_path)) == 'a.gin'


def test_foreign_directory_is_refused(place):
  files.make_directory(place)
  files.write(f'{place}/thesis.tex', b'1')
  _refused(place, CONFIG, 'not empty and holds no run')
  assert files.names(place) == ['thesis.tex']


@pytest.mark.parametrize('path', ['file', 'file/a/b', 'a/' + 200 * 'ü'])
def test_path_that_cannot_be_a_directory_is_refused(tmp_path, path):
  (tmp_path / 'file').touch()
  _refused(tmp_path / path, CONFIG, 'choose another --run_dir')
  assert [name.name for name in tmp_path.iterdir()] == ['file']


def test_url_that_would_be_a_pattern_is_refused(tmp_path):
  _refused(f'ram:/{tmp_path}/a[0]', CONFIG, 'for a glob')
  assert not files.exists(f'ram:/{tmp_path}')


def _fail_within(path, *names):
  """Writes files in a run that then finds that its input is bad."""
  with pytest.raises(config_lib.UserError, match='no such thing'):
    with run_directory.claim(str(path), CONFIG):
      for name in names:
        files.make_directory(f'{path}/{name}'.rpartition('/')[0])
        files.write(f'{path}/{name}', b'{"frames": 1}\n')
      raise config_lib.UserError('no such thing')


def test_nothing_is_left_where_it_could_not_begin(tmp_path):
  _fail_within(tmp_path / 'new', 'logs/learner.log', 'checkpoints/agent.json')
  assert not (tmp_path / 'new').exists()
  (tmp_path / 'empty').mkdir()
  (tmp_path / 'link').symlink_to(tmp_path / 'empty')
  for name in ('empty', 'link'):
    _fail_within(tmp_path / name, 'logs/learner.log', 'tensorboard/events')
    assert (tmp_path / name).exists()
    assert not any((tmp_path / 'empty').iterdir())


@pytest.mark.parametrize('file, is_kept', [
    ('metrics.jsonl', True), ('checkpoints/ckpt-7.index', True),
    ('checkpoints/agent.json', False)])
def test_learning_is_never_removed_and_all_else_is(place, file, is_kept):
  _fail_within(place, file)
  for name in file, 'config.gin':
    assert files.exists(f'{place}/{name}') == is_kept
  if is_kept:  # Nothing of a resumed run is removed.
    _fail_within(place, 'logs/learner.log')
    assert files.exists(f'{place}/logs/learner.log')


def test_fresh_path_has_level_and_time():
  path = run_directory.fresh_path('atari/pong,atari/qbert,atari/seaquest')
  assert re.fullmatch(r'runs/atari_pong_and_2_more-\d{8}-\d{6}-\d+', path)
