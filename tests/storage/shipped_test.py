"""Shipped configs and agents are found by name, in a clone and installed."""

import os

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.storage import shipped
from tests.fixtures import programs


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize('name, kind, path', [
    ('atari/pong', '', 'atari/pong.gin'),
    ('configs/catch.gin', '', 'catch.gin'),
    ('table_d1', shipped.SWEEPS, 'sweeps/table_d1.gin'),
    ('table_d1', shipped.POPULATIONS, 'populations/table_d1.gin'),
    ('sweeps/example', shipped.POPULATIONS, 'sweeps/example.gin')])
def test_name_is_a_shipped_config_in_any_directory(name, kind, path):
  assert shipped.find_config(name, kind) == str(
      programs.ROOT / 'configs' / path)


def test_file_that_exists_wins_over_a_name(tmp_path):
  (tmp_path / 'catch').mkdir()  # A directory is no file.
  assert shipped.find_config('catch').endswith('configs/catch.gin')
  (tmp_path / 'pong').touch()
  assert shipped.find_config('pong') == 'pong'


@pytest.mark.parametrize('name, kind, words', [
    ('breakout', '', 'did you mean atari/breakout?'),
    ('zzz', '', 'name a .gin file, or one of those in ')])
def test_wrong_name_is_refused_with_the_nearest(name, kind, words):
  with pytest.raises(config_lib.ConfigError) as raised:
    shipped.find_config(name, kind)
  assert words in str(raised.value)


@pytest.mark.parametrize('kind', ['', shipped.SWEEPS, shipped.POPULATIONS])
def test_every_listed_name_leads_to_a_file_of_its_kind(kind):
  names = shipped.config_names(kind)
  assert len(names) > 5
  for name in names:
    path = os.path.relpath(
        shipped.find_config(name, kind), programs.ROOT / 'configs')
    assert path.startswith(kind)
    assert bool(kind) == path.startswith(('sweeps/', 'populations/'))


def test_agent_in_the_box_has_a_name_and_directories_win(tmp_path):
  assert gin_config.load(gin_config.config_path(shipped.find_agent('pong')))
  for run_dir in ('runs/x', 'gs://b/x', 'pnog', ''):
    assert shipped.find_agent(run_dir) == run_dir
  (tmp_path / 'pong').mkdir()
  assert shipped.find_agent('pong') == 'pong'
  assert shipped.find_agent('~/pong') == os.path.expanduser('~/pong')
