"""Levels of the real DeepMind Lab, held against what Lab's scripts say of them.

The numbers are those of game_scripts/levels/contributed/dmlab30/ in Lab's
sources, and of the factories that these name.
"""

import functools
import importlib.util

import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import dmlab
from impala_tf.envs import dmlab_files
from impala_tf.envs import factory
from impala_tf.envs import multi_level

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec('deepmind_lab') is None,
                       reason='needs DeepMind Lab: docs/dmlab.md'),
    pytest.mark.timeout(600)]  # Maps are compiled.

FIRST = 0


def _config(tmp_path):
  return config.Config(
      agent=config.AgentConfig(instruction_length=16),
      actor=config.ActorConfig(
          num_envs=2, env_processes=2, env_timeout_secs=600.),
      dmlab=config.DmlabConfig(
          dataset_path='dummy', level_cache_dir=str(tmp_path / 'maps')))


def _has_maps(name):
  """Returns whether the maps of a level are installed."""
  try:
    dmlab_files.check_maps(name, dmlab.import_lab(name).runfiles_path())
  except config.ConfigError:
    return False
  return True


@pytest.mark.soak  # Minutes of CPU: maps are compiled.
@pytest.mark.timeout(3600)
def test_every_level_plays_a_thousand_steps_and_to_an_end(
    tmp_path, start_workers):
  settings = _config(tmp_path)
  names = [name for name in dmlab.NAMES
           if not name.endswith('_test') and _has_maps(name)]
  assert len(names) >= 27  # Copies of the sources may lack natlab's maps.
  for name in names:
    rng = np.random.default_rng(0)
    make = functools.partial(
        factory.make_environment, config=settings, training=True)
    pool = multi_level.make_workers(
        f'dmlab30/{name}', 1, 0, make, settings.actor)
    num_rows, num_firsts = np.zeros(2, int), np.zeros(2, int)
    pictures = set()
    try:
      while num_rows.min() <= 1000 or num_firsts.min() < 2:
        numbers, row = pool.recv()
        assert row.observation.shape == (len(numbers), 72, 96, 3)
        assert row.observation.dtype == np.uint8
        assert np.isfinite(row.reward).all()
        pictures.update(picture.tobytes() for picture in row.observation)
        is_first = row.step_type == FIRST
        # Nothing but the first reset begins an episode without an end.
        is_end = is_first & (num_rows[numbers] > 0)
        assert (row.discount == ~is_end).all()
        num_rows[numbers] += 1
        num_firsts[numbers] += is_first
        pool.send(numbers, rng.integers(9, size=len(numbers), dtype=np.int32))
      assert len(pictures) > 20, name
    finally:
      pool.close()


# Steps of an episode (seconds of 60 frames, 4 a step), episodes that are
# played, and what may be paid in a step.
@pytest.mark.slow
@pytest.mark.parametrize('name, steps, episodes, rewards', [
    ('rooms_select_nonmatching_object', 12 * 15, 12, {0, 1, 10, -10, 11, -9}),
    ('rooms_collect_good_objects_train', 60 * 15, 3, {0, 1, -1})])
def test_episodes_last_and_pay_as_lab_says(
    tmp_path, name, steps, episodes, rewards):
  env = factory.make_environment(
      f'dmlab30/{name}', 1, 0, _config(tmp_path), training=True)
  rng = np.random.default_rng(0)
  env.reset()
  paid, ends = set(), []
  for t in range(1, steps * episodes + 1):
    row = env.step(rng.integers(9, size=1, dtype=np.int32))
    paid.add(float(row.reward[0]))
    if row.step_type[0] == FIRST:
      ends.append(t)
  env.close()
  assert {0} < paid <= rewards
  assert ends == [steps * (i + 1) for i in range(episodes)]
