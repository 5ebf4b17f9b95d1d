"""Levels that a config names."""

import pytest

from impala_tf import config
from impala_tf.suites import levels


@pytest.mark.parametrize('level, expanded', [
    ('atari/pong', ('atari/pong',)),
    ('gym/CartPole-v1', ('gym/CartPole-v1',)),
    ('atari/seaquest, atari/pong,catch',
     ('atari/seaquest', 'atari/pong', 'catch'))])
def test_one_level_is_itself_and_a_list_keeps_its_order(level, expanded):
  assert levels.expand(level) == expanded


def test_suite_is_what_it_trains_on():
  games, tasks = levels.expand('atari57'), levels.expand('dmlab30')
  assert len(set(games)) == 57 and 'atari/skiing' in games
  assert len(set(tasks)) == 30
  assert 'dmlab30/rooms_collect_good_objects_train' in tasks
  assert not [task for task in tasks if task.endswith('_test')]


@pytest.mark.parametrize('level, name', [
    ('catch,', ''), ('catch,,atari/pong', ''), ('catch,atari57', 'atari57'),
    ('catch,atari/pong, catch', 'catch')])
def test_list_that_is_none_is_refused(level, name):
  with pytest.raises(config.ConfigError, match=(
      f"'{name}' in '{level}' is wrong; a list has each level once")):
    levels.expand(level)


def test_short_name_counts_the_levels_of_a_list():
  assert levels.short_name('atari57') == 'atari57'
  assert levels.short_name('catch,tmaze/3,atari/pong') == 'catch and 2 more'


def test_suite_of_a_level():
  assert levels.suite_of('atari/skiing').name == 'atari57'
  for kind in 'train', 'test':
    level = f'dmlab30/rooms_collect_good_objects_{kind}'
    assert levels.suite_of(level).name == 'dmlab30'
  for level in 'catch', 'atari/adventure':
    assert levels.suite_of(level) is None
