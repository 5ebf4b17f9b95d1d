"""Tests of what is said of a directory of sources, with the real git."""

import shutil
import subprocess

import pytest

from launch.dmlab_build import sources
from tests.fixtures import tiny_lab

_MAPS = 'assets/maps/built'


def _git(directory, *arguments):
  return subprocess.run(
      ['git', '-c', 'user.name=A', '-c', 'user.email=a@b', *arguments],
      cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(name='source')
def _checkout(tmp_path):
  source = tiny_lab.write(tmp_path / 'source')
  _git(source, 'init', '--quiet')
  _git(source, 'add', '--all')
  _git(source, 'commit', '--quiet', '--message=All')
  return source


def test_directory_is_recognised(source, tmp_path):
  assert sources.is_lab(source)
  assert not sources.is_lab(tmp_path)
  assert not sources.is_lab(tmp_path / 'none')


def test_files_that_a_checkout_lacks_are_named(source):
  assert sources.commit(source) == _git(source, 'rev-parse', 'HEAD')
  assert sources.missing_files(source) == []
  gone = [f'{_MAPS}/arena.bsp', 'assets/textures/wall/blue_d.tga']
  for path in (*gone, 'LICENSE'):
    (source / path).unlink()
  assert sources.missing_files(source) == gone  # What is played with.


def test_sources_of_another_user_are_looked_at_too(source, monkeypatch):
  (source / 'assets/default.cfg').unlink()
  monkeypatch.setenv('GIT_TEST_ASSUME_DIFFERENT_OWNER', '1')  # Git's own.
  assert sources.commit(source)
  assert sources.missing_files(source) == ['assets/default.cfg']


def test_nothing_is_known_of_a_tree_without_git(source, tmp_path, monkeypatch):
  (source / _MAPS / 'arena.bsp').unlink()
  # Within another repository, whose files are none of Lab's.
  inner = tmp_path / 'outer' / 'inner'
  shutil.copytree(source, inner, ignore=shutil.ignore_patterns('.git'))
  _git(inner.parent, 'init', '--quiet')
  assert sources.commit(inner) is None
  assert sources.missing_files(inner) is None
  monkeypatch.setenv('PATH', str(tmp_path))  # No git at all.
  assert sources.missing_files(source) is None


def test_levels_are_found_by_a_map_and_by_what_maps_begin_with(source):
  missing = [f'{_MAPS}/forage_000.bsp', f'{_MAPS}/forage_001.bsp',
             f'{_MAPS}/other_002.bsp', 'assets/textures/wall/arena.tga']
  assert sources.levels_without_maps(source, missing) == {'natlab_varying': 2}
  assert sources.levels_without_maps(source, [f'{_MAPS}/arena.bsp']) == {
      'arena_one': 1}
  assert sources.levels_without_maps(source, []) == {}
