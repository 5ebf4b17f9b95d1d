"""Files of DeepMind Lab: maps stay whole, scratch files go.

Names and numbers of files are those of Lab's sources.
"""

import os
import pathlib
import signal
import subprocess
import zipfile

import pytest

from impala_tf import config
from impala_tf.envs import dmlab_files
from tests.fixtures import programs


def _pk3(directory, content):
  directory.mkdir(exist_ok=True)
  path = directory / 'map.pk3'
  path.write_bytes(content)
  return str(path)


def test_cache_gives_what_was_written_first(tmp_path):
  cache = dmlab_files.LevelCache(str(tmp_path / 'cache'))
  other = dmlab_files.LevelCache(str(tmp_path / 'cache'))
  fetched = tmp_path / 'fetched.pk3'
  assert cache.fetch('key', str(fetched)) is False
  assert not fetched.exists()
  cache.write('key', _pk3(tmp_path, b'first'))
  other.write('key', _pk3(tmp_path, b'second'))
  fetched.write_bytes(b'something longer that is replaced')
  assert other.fetch('key', str(fetched)) is True
  assert fetched.read_bytes() == b'first'
  assert other.fetch('another', str(fetched)) is False


@pytest.mark.parametrize('ends, another_writes', [(True, True), (False, False)])
def test_half_written_map_is_never_fetched(
    tmp_path, monkeypatch, capsys, ends, another_writes):
  cache, other = (
      dmlab_files.LevelCache(str(tmp_path / 'cache')) for _ in range(2))
  fetched = tmp_path / 'fetched.pk3'
  found_within = []
  copy = dmlab_files.shutil.copyfile

  def copy_half(source, target):
    with open(target, 'wb') as file:
      file.write(b'half')
    with monkeypatch.context() as inner:
      inner.setattr(dmlab_files.shutil, 'copyfile', copy)
      found_within.append(cache.fetch('key', str(fetched)))
    if not ends:
      raise OSError('No space left on device')
    copy(source, target)
    if another_writes:  # Before this one has its name.
      patch.setattr(dmlab_files.shutil, 'copyfile', copy)
      other.write('key', source)

  with monkeypatch.context() as patch:
    patch.setattr(dmlab_files.shutil, 'copyfile', copy_half)
    cache.write('key', _pk3(tmp_path, b'whole'))
  assert found_within == [False]
  assert cache.fetch('key', str(fetched)) is ends
  assert [p.name for p in (tmp_path / 'cache').iterdir()] == ['key'] * ends
  assert capsys.readouterr().err.count('note: ') == (not ends)


def test_cache_that_fails_is_noted_once(tmp_path, monkeypatch, capsys):
  cache = dmlab_files.LevelCache(str(tmp_path / 'cache'))

  def fail(*unused):
    raise OSError(28, 'No space left on device')

  with monkeypatch.context() as patch:
    patch.setattr(dmlab_files.shutil, 'copyfile', fail)
    for key in 'ab':
      cache.write(key, 'map.pk3')
      assert cache.fetch(key, 'map.pk3') is False
  line, = capsys.readouterr().err.splitlines()
  assert 'DmlabConfig.level_cache_dir: ' in line and 'No space left' in line
  cache.write('a', _pk3(tmp_path, b'map'))  # It goes on once it can.
  assert cache.fetch('a', str(tmp_path / 'fetched')) is True


def test_digest_is_of_what_maps_are_compiled_with(tmp_path):
  (tmp_path / 'baselab').mkdir()
  (tmp_path / 'q3map2').mkdir()
  digests = []
  for compiler, texture, year in (
      ('1', 'red', 2000), ('1', 'red', 2001), ('1', 'tan', 2000),
      ('2', 'red', 2000)):
    (tmp_path / 'q3map2' / 'q3map2').write_text(compiler)
    with zipfile.ZipFile(tmp_path / 'baselab' / 'assets.pk3', 'w') as archive:
      archive.writestr(
          zipfile.ZipInfo('wall.tga', (year, 1, 1, 0, 0, 0)), texture)
    digests.append(dmlab_files.compilation_digest(str(tmp_path)))
  assert digests[0] == digests[1] and len({*digests}) == 3


def test_cache_that_cannot_be_made_is_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  for directory in (str(tmp_path / 'file' / 'cache'), '~no_such_user/cache'):
    with pytest.raises(config.ConfigError, match=(
        'DmlabConfig.level_cache_dir: .* or None for no cache')):
      dmlab_files.LevelCache(directory)


def test_full_cache_stays_as_it_is(tmp_path):
  cache = dmlab_files.LevelCache(str(tmp_path / 'cache'), max_bytes=25)
  for key in 'abcd':
    cache.write(key, _pk3(tmp_path, b'ten bytes.'))
  names = sorted(p.name for p in (tmp_path / 'cache').iterdir())
  assert names == ['a', 'b', 'c']
  assert cache.fetch('c', str(tmp_path / 'fetched'))


def test_half_written_maps_of_killed_processes_are_removed(tmp_path):
  directory = tmp_path / 'cache'
  directory.mkdir()
  for name in ('.old.1.part', '.new.1.part', 'key'):
    (directory / name).write_text('map')
  for name in ('.old.1.part', 'key'):
    os.utime(directory / name, (0, 0))
  dmlab_files.LevelCache(str(directory))
  names = sorted(p.name for p in directory.iterdir())
  assert names == ['.new.1.part', 'key']  # Another may be at the new one.


# Scratch files.

_HOLD = """
import os, sys
from impala_tf.envs import dmlab_files
from impala_tf.runtime import leftovers
os.environ[leftovers.VARIABLE] = mark = __import__('uuid').uuid4().hex
scratch = dmlab_files.Scratch()
folder = scratch.make()
open(os.path.join(folder, 'map.pk3'), 'w').close()
print(folder, flush=True)
if sys.argv[1] == 'exit':
  os._exit(1)  # As Lab does, whose C code knows no Python.
sys.stdin.read()
leftovers.kill(mark)
"""


@pytest.mark.parametrize('how', ['kill group', 'exit', 'end'])
def test_scratch_is_gone_however_its_process_ends(tmp_path, how):
  with programs.running(
      '-c', _HOLD, how, stdin=subprocess.PIPE, text=True,
      start_new_session=True,
      variables={'TMPDIR': str(tmp_path)}) as process:
    folder = pathlib.Path(process.stdout.readline().strip())
    assert tmp_path in folder.parents
    if how == 'kill group':
      os.killpg(process.pid, signal.SIGKILL)
    elif how == 'end':
      process.communicate(timeout=programs.DEADLINE_SECS)
    process.wait(programs.DEADLINE_SECS)
    programs.wait_until(lambda: not list(tmp_path.iterdir()), 'an empty folder')


# Data sets and maps that levels need.


def test_photographs_are_all_there_or_it_is_said(tmp_path):
  for i in range(1, 2401):  # As the README.md of Lab's data/ makes them.
    (tmp_path / f'{i:04d}.png').touch()
  dmlab_files.check_dataset(str(tmp_path))
  (tmp_path / '0007.png').unlink()
  (tmp_path / '2400.png').unlink()
  with pytest.raises(config.ConfigError, match=(
      'DmlabConfig.dataset_path: .* lacks 2 of the 2,400 photographs '
      "0001.png to 2400.png, such as 0007.png; .*'dummy'")):
    dmlab_files.check_dataset(str(tmp_path))
  with pytest.raises(config.ConfigError, match='cannot be read'):
    dmlab_files.check_dataset(str(tmp_path / 'none'))
  dmlab_files.check_dataset('dummy')


def test_maps_are_all_there_or_it_is_said(tmp_path):
  maps = tmp_path / 'baselab' / 'maps'
  maps.mkdir(parents=True)
  for i in range(98):
    (maps / f'natlab_forage_stm_{i:03d}.bsp').touch()
  with pytest.raises(config.ConfigError, match=(
      'dmlab30/natlab_varying_map_regrowth: .* lacks 2 of the level.s 100 maps,'
      ' such as natlab_forage_stm_098.bsp; .*docs/dmlab.md')):
    dmlab_files.check_maps('natlab_varying_map_regrowth', str(tmp_path))
  dmlab_files.check_maps('rooms_watermaze', str(tmp_path))
