"""Checkpoints come back as saved; damage costs the newest one only."""

from unittest import mock

import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import saved as saved_lib
from impala_tf.storage import checkpoint
from impala_tf.storage import files
from tests.fixtures import full_disk
from tests.fixtures import saved_parts


def _save(parts, scores):
  """Saves by {number: score}; returns the values of each."""
  values = {}
  for number, score in scores.items():
    values[number] = parts.randomise(number)
    parts.checkpointer.save(number, score)
  return values


@pytest.fixture(name='saved')
def _saved(tmp_path):
  """Makes a run with checkpoints 5 and 12; returns the values of both."""
  return _save(saved_parts.Parts(tmp_path), {5: None, 12: None})


def test_everything_comes_back(saved, tmp_path):
  parts = saved_parts.Parts(tmp_path, seed=2)
  path = parts.checkpointer.restore()
  assert path == str(tmp_path / 'checkpoints' / 'ckpt-12')
  saved_parts.assert_equal(parts.values(), saved[12])
  # Among it: parameters, both slots of each, counters, totals and
  # hyper-parameters.
  num_parameters = len(parts.learner.agent.trainable_variables)
  assert len(saved[12]) == 3 * num_parameters + 4 + 3
  for variable in (parts.learner.num_frames, parts.learner.num_updates,
                   parts.totals.secs, parts.totals.best_return,
                   *parts.learner.hyperparameters.variables,
                   *parts.learner.optimizer.mean_squares,
                   *parts.learner.optimizer.momenta):
    assert any(variable is v for v in parts.variables)


class Killed(BaseException):
  """A stand-in for a kill, which nothing catches."""


def _kill(*unused):
  raise Killed


def _names(tmp_path):
  return {path.name for path in (tmp_path / 'checkpoints').iterdir()}


def _names_of(tmp_path, *numbers):
  return {path.name for number in numbers
          for path in saved_parts.checkpoint_files(tmp_path, number)}


def _check_restored(run_dir, name, values):
  """Restores into new parts, which it returns; checks which and its values."""
  parts = saved_parts.Parts(run_dir, seed=2)
  assert parts.checkpointer.restore().endswith(name)
  saved_parts.assert_equal(parts.values(), values)
  return parts


def _flip(path):
  content = bytearray(path.read_bytes())
  content[len(content) // 3] ^= 0xff
  path.write_bytes(content)


@pytest.mark.parametrize('damage', [
    pytest.param(saved_parts.cut_index, id='cut index'),
    pytest.param(lambda index, data: data.unlink(), id='no data'),
    pytest.param(lambda index, data: _flip(data), id='flipped data')])
@pytest.mark.slow
def test_damaged_newest_is_said_and_the_one_before_taken(
    saved, tmp_path, damage, caplog):
  damage(*saved_parts.checkpoint_files(tmp_path, 12))
  parts = _check_restored(tmp_path, 'ckpt-5', saved[5])
  message, = [r.getMessage() for r in caplog.records if r.levelname == 'ERROR']
  assert 'ckpt-12 cannot be restored' in message
  assert '\n' not in message
  # The next one, learned anew, is the newest.
  values = parts.randomise(13)
  parts.checkpointer.save(12)
  _check_restored(tmp_path, 'ckpt-12', values)


def test_all_damaged_is_an_error_of_one_line(saved, tmp_path):
  del saved
  for number in (5, 12):
    saved_parts.cut_index(*saved_parts.checkpoint_files(tmp_path, number))
  with pytest.raises(config_lib.UserError) as raised:
    saved_parts.Parts(tmp_path).checkpointer.restore()
  message = str(raised.value)
  assert 'damaged checkpoints (2)' in message and str(tmp_path) in message
  assert 'put back a good copy' in message


def test_kill_while_writing_leaves_the_one_before(saved, tmp_path):
  # What TensorFlow leaves: shards under other names, and no index yet.
  index, data = saved_parts.checkpoint_files(tmp_path, 12)
  leftovers = tmp_path / 'checkpoints' / 'ckpt-20_temp'
  leftovers.mkdir()
  (leftovers / 'part-00000-of-00001.data-00000-of-00001').write_bytes(b'half')
  (leftovers / 'part-00000-of-00001.index.tempstate1').write_bytes(b'half')
  directory = tmp_path / 'checkpoints'
  (directory / 'ckpt-20.data-00000-of-00001').write_bytes(data.read_bytes())
  (directory / 'ckpt-20.index.tempstate7').write_bytes(index.read_bytes())
  (directory / 'checkpoint.tmp8').write_text('half')
  (directory / 'checkpoint').write_text('nonsense {')  # Of earlier versions.
  saved_parts.Parts(tmp_path).checkpointer.restore(tidy=False)
  assert leftovers.exists()  # Its writer may be another learner.
  parts = _check_restored(tmp_path, 'ckpt-12', saved[12])
  assert _names(tmp_path) == _names_of(tmp_path, 5, 12)
  # A resumed run can be resumed again.
  values = parts.randomise(20)
  parts.checkpointer.save(20)
  _check_restored(tmp_path, 'ckpt-20', values)


@pytest.mark.parametrize('is_resumed', [False, True])
def test_kill_while_writing_one_of_the_same_number_leaves_the_later(
    tmp_path, monkeypatch, is_resumed):
  """Kills it between the two files: the data is new, and the index is old."""
  parts = saved_parts.Parts(tmp_path, keep=1)
  parts.randomise(1)
  parts.checkpointer.save(12)
  if is_resumed:
    parts = saved_parts.Parts(tmp_path, keep=1)
    parts.checkpointer.restore()
  index, _ = saved_parts.checkpoint_files(tmp_path, 12)
  before = index.read_bytes()
  write = tf.train.Checkpoint.write

  def kill(parts, path):
    write(parts, path)
    if path == str(index.with_suffix('')):
      index.write_bytes(before)
      raise Killed

  values = parts.randomise(2)
  with monkeypatch.context() as patch:
    patch.setattr(tf.train.Checkpoint, 'write', kill)
    with pytest.raises(Killed):
      parts.checkpointer.save(12)
  again = saved_parts.Parts(tmp_path, keep=1)
  assert again.checkpointer.restore()
  saved_parts.assert_equal(again.values(), values)
  # The next has neither a spare nor what was torn.
  values = again.randomise(3)
  for number in 12, 13, 13:
    again.checkpointer.save(number)
  assert not list((tmp_path / 'checkpoints').glob('spare*'))
  _check_restored(tmp_path, 'ckpt-13', values)


def test_newest_is_kept_though_one_of_a_higher_number_is_damaged(
    saved, tmp_path):
  saved_parts.cut_index(*saved_parts.checkpoint_files(tmp_path, 12))
  parts = saved_parts.Parts(tmp_path, keep=1)
  assert parts.checkpointer.restore().endswith('ckpt-5')
  values = parts.randomise(2)
  parts.checkpointer.save(10)
  _check_restored(tmp_path, 'ckpt-10', values)


@pytest.mark.parametrize('size', [0, 500])
@pytest.mark.slow
def test_failed_save_is_an_error_and_leaves_the_others(saved, tmp_path, size):
  assert size < saved_parts.checkpoint_files(tmp_path, 12)[1].stat().st_size
  parts = saved_parts.Parts(tmp_path, keep=2)
  parts.checkpointer.restore()
  before = _names(tmp_path)
  parts.randomise(20)
  with full_disk.largest_file(size):
    with pytest.raises(OSError, match='checkpoint 20 could not be written to'):
      parts.checkpointer.save(20)
  assert _names(tmp_path) == before
  _check_restored(tmp_path, 'ckpt-12', saved[12])
  parts.checkpointer.save(21)  # There is room again.
  assert saved_parts.Parts(tmp_path).checkpointer.restore().endswith('ckpt-21')


@pytest.mark.parametrize('name', [
    'lr=[0.001]', 'a*?\\b', 'a: größe %d {x} $HOME', 'x' * 250])
def test_any_directory_is_taken_as_it_is(tmp_path, name):
  run_dir = tmp_path / name
  parts = saved_parts.Parts(run_dir, keep=1)
  for number in 1, 2, 2, 3:
    values = parts.randomise(number)
    parts.checkpointer.save(number, score=number)
  again = _check_restored(run_dir, 'ckpt-3', values)
  assert checkpoint.is_whole(checkpoint.find(str(run_dir), 'best')[0])
  copy = str(run_dir / 'copy')
  checkpoint.write_parts({'totals': parts.totals}, copy)
  best = float(parts.totals.best_return)
  again.randomise(4)
  checkpoint.read_parts({'totals': again.totals}, copy)
  assert float(again.totals.best_return) == best
  _flip(run_dir / 'copy.data-00000-of-00001')
  assert not checkpoint.is_whole(copy)


def test_neighbours_that_a_pattern_would_match_are_left_alone(tmp_path):
  names = []
  for name in 'try1', 'try[1]':
    parts = saved_parts.Parts(tmp_path / name, keep=1)
    for number in 1, 2, 3:
      parts.checkpointer.save(number)
    if not names:
      names = _names(tmp_path / name)
  assert _names(tmp_path / 'try1') == names == _names(tmp_path / 'try[1]')


def test_only_optional_parts_may_be_missing(tmp_path):
  old = saved_parts.Parts(tmp_path)
  values = old.randomise(3)
  some = {'agent': old.learner.agent, 'totals': old.totals}
  checkpoint.Checkpointer(
      str(tmp_path), 3, learner=old.learner.saved, **some).save(7)
  parts = saved_parts.Parts(tmp_path)
  rate = float(parts.learner.hyperparameters.learning_rate)
  assert parts.checkpointer.restore().endswith('ckpt-7')
  saved_parts.assert_equal(parts.values()[:-4], values[:-4])
  assert float(parts.learner.hyperparameters.learning_rate) == rate
  checkpoint.Checkpointer(str(tmp_path), 1, **some).save(8)
  with pytest.raises(config_lib.UserError, match='holds an exported agent'):
    saved_parts.Parts(tmp_path).checkpointer.restore()


# The best.


def _restored(path):
  """Returns the values in one checkpoint."""
  parts = saved_parts.Parts('unused', seed=3)
  parts.randomise(99)
  checkpoint.restore(parts.modules, [path], whole=True)
  return parts.values()


def test_best_stays_until_there_is_a_better_though_the_newest_go_on(tmp_path):
  parts = saved_parts.Parts(tmp_path, keep=2)
  # 3 is as good as 4 and came first.
  values = _save(parts, {1: None, 2: float('nan'), 3: 5., 4: 5.,
                         5: float('inf'), 6: 2., 7: None})
  best = checkpoint.find_best(str(tmp_path))
  assert (best.number, best.score) == (3, 5.)
  assert checkpoint.find(str(tmp_path), 'best') == [best.path]
  saved_parts.assert_equal(_restored(best.path), values[3])
  assert _names(tmp_path) == {
      'best.json', 'best-3.index', 'best-3.data-00000-of-00001',
      *_names_of(tmp_path, 6, 7)}
  # A resumed run keeps it, too.
  parts = saved_parts.Parts(tmp_path, seed=2, keep=2)
  parts.checkpointer.restore()
  parts.checkpointer.save(8, 4.)
  assert checkpoint.find_best(str(tmp_path)).number == 3
  better = parts.randomise(9)
  parts.checkpointer.save(9, 6.)
  best, = checkpoint.find(str(tmp_path), 'best')
  saved_parts.assert_equal(_restored(best), better)
  for path in (tmp_path / 'checkpoints').glob('ckpt-*.index'):
    path.unlink()  # The best is all that is left.
  _check_restored(tmp_path, 'best-9', better).checkpointer.save(10)


def test_best_of_a_score_that_is_not_finite_is_replaced(tmp_path):
  saved_parts.Parts(tmp_path).checkpointer.save(3, 1.)
  (tmp_path / 'checkpoints' / 'best.json').write_text(
      '{"number": 3, "score": NaN}')
  saved_parts.Parts(tmp_path).checkpointer.save(5, -7.)
  assert checkpoint.find_best(str(tmp_path)).number == 5


@pytest.mark.parametrize('step', ['write', 'json', 'remove'])
def test_best_that_is_cut_short_leaves_one_that_is_whole(
    tmp_path, monkeypatch, step):
  parts = saved_parts.Parts(tmp_path)
  values = _save(parts, {1: 1., 2: 5.})
  values[3] = parts.randomise(3)
  with monkeypatch.context() as patch:
    if step == 'write':
      directory = tmp_path / 'checkpoints'
      (directory / 'best-3_temp').mkdir()
      (directory / 'best-3_temp' / 'part-0').write_bytes(b'half')
      patch.setattr(tf.train.Checkpoint, 'write', _kill)
    elif step == 'json':
      (tmp_path / 'checkpoints' / 'best.json.new').write_text('{"num')
      patch.setattr(files, 'write', _kill)
    else:
      patch.setattr(files, 'remove', _kill)
    with pytest.raises(Killed):
      parts.checkpointer.save(3, 6.)
  number = 3 if step == 'remove' else 2
  best = checkpoint.find_best(str(tmp_path))
  assert best.number == number
  saved_parts.assert_equal(_restored(best.path), values[number])
  saved_parts.Parts(tmp_path).checkpointer.restore()
  assert {name for name in _names(tmp_path) if name.startswith('best')} == {
      'best.json', f'best-{number}.index',
      f'best-{number}.data-00000-of-00001'}


def test_checkpoint_is_found_by_its_number_or_what_there_is_is_listed(tmp_path):
  run_dir = str(tmp_path)
  with pytest.raises(config_lib.UserError, match='no best checkpoint'):
    checkpoint.find(run_dir, 'best')
  with pytest.raises(config_lib.UserError, match='there are none'):
    checkpoint.find(run_dir, 1)
  _save(saved_parts.Parts(tmp_path, keep=2), {1: 5., 2: 2., 3: 1.})
  for number, name in (1, 'best-1'), (2, 'ckpt-2'), (3, 'ckpt-3'):
    path, = checkpoint.find(run_dir, number)
    assert path == str(tmp_path / 'checkpoints' / name)
  for which, words in (('3', "but not the text '3'$"),
                       (4, r'no checkpoint 4; there are 3, 2, best \(1\)')):
    with pytest.raises(config_lib.UserError, match=words):
      checkpoint.find(run_dir, which)


def test_best_is_read_by_its_number_while_one_of_both_files_is_whole(tmp_path):
  _save(saved_parts.Parts(tmp_path), {1: 5.})
  for damaged in 'best-1', 'ckpt-1':
    index = tmp_path / 'checkpoints' / f'{damaged}.index'
    whole = index.read_bytes()
    index.write_bytes(b'')
    parts = saved_parts.Parts('unused', seed=3)
    parts.randomise(99)
    path = checkpoint.restore(
        {'agent': parts.learner.agent}, checkpoint.find(str(tmp_path), 1),
        whole=False)
    assert path is not None and not path.endswith(damaged)
    index.write_bytes(whole)


def test_best_copy_that_cannot_be_written_costs_nothing_else(
    tmp_path, caplog, monkeypatch):
  parts = saved_parts.Parts(tmp_path)
  values = _save(parts, {1: 1., 2: 5.})
  in_the_way = tmp_path / 'checkpoints' / 'best-3.index'
  write = tf.train.Checkpoint.write

  def write_in_vain(parts, path):
    if path == str(in_the_way.with_suffix('')):
      # A directory in the place of the index.
      (in_the_way / 'x').mkdir(parents=True)
    return write(parts, path)

  values[3] = parts.randomise(3)
  with monkeypatch.context() as patch:
    patch.setattr(tf.train.Checkpoint, 'write', write_in_vain)
    assert parts.checkpointer.save(3, 6.).endswith('ckpt-3')
  line, = [record.getMessage() for record in caplog.records
           if record.levelname == 'ERROR']
  assert line.startswith('The best checkpoint, 3, could not be copied in ')
  assert checkpoint.find_best(str(tmp_path)).number == 2
  best, = checkpoint.find(str(tmp_path), 'best')
  saved_parts.assert_equal(_restored(best), values[2])
  newest = checkpoint.find(str(tmp_path))[0]
  saved_parts.assert_equal(_restored(newest), values[3])


# Behind a URL.


def test_behind_a_url_damage_costs_the_newest_only_and_remains_go(tmp_path):
  url = f'ram:/{tmp_path}'
  parts = saved_parts.Parts(url)
  saved_parts.describe(url, parts)
  values = _save(parts, {5: 1., 12: 1.})  # Better than none.
  directory = f'{url}/checkpoints'
  whole = files.names(directory)
  files.make_directory(f'{directory}/ckpt-20_temp')
  for name in ('best-20.index', 'ckpt-20_temp/part-0',
               'ckpt-20.data-00000-of-00001', 'ckpt-20.index.tempstate7',
               'checkpoint.tmp8'):
    files.write(f'{directory}/{name}', b'half')
  again = _check_restored(url, f'{directory}/ckpt-12', values[12])
  assert files.names(directory) == whole
  files.write(f'{directory}/ckpt-12.index', b'half')
  assert again.checkpointer.restore() == f'{directory}/ckpt-5'
  saved_parts.assert_equal(again.values(), values[5])
  assert saved_lib.load_agent(url).num_frames == (int(again.learner.num_frames))
  assert saved_lib.load_agent(url, 'best').checkpoint == 'best-5'


def test_store_that_does_not_answer_is_no_damage(tmp_path, monkeypatch):
  url = f'ram:/{tmp_path}'
  parts = saved_parts.Parts(url)
  _save(parts, {5: None, 12: None})

  def fail(*unused):
    raise tf.errors.UnavailableError(None, None, 'no route\nto the bucket')

  with monkeypatch.context() as patch:
    patch.setattr(tf.train.Checkpoint, 'restore', fail)
    with pytest.raises(files.RemoteError, match='ckpt-12: no route to the'):
      parts.checkpointer.restore()
  with monkeypatch.context() as patch:
    patch.setattr(
        files, 'read', mock.Mock(side_effect=files.RemoteError(5, '')))
    with pytest.raises(files.RemoteError):  # The best is not forgotten.
      checkpoint.find_best(url)
  assert parts.checkpointer.restore().endswith('ckpt-12')
