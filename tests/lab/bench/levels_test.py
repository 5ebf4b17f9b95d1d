"""The benchmark of levels counts each step and reset once."""

import csv

import pytest

from lab.bench import levels
from tests.fixtures import programs


def test_resets_are_kept_apart_from_steps():
  steps = [levels.Step(9., 6., True, 0.),  # The reset before the first episode.
           levels.Step(.1, .01, False, 1.), levels.Step(.3, .03, False, 0.),
           levels.Step(3., 2., True, 2.),
           levels.Step(.2, .01, False, 0.), levels.Step(5., 3., True, 4.),
           levels.Step(.2, .01, False, 100.)]  # Of an episode that goes on.
  row = levels.summarise(steps)
  assert row['steps_per_sec'] == pytest.approx(4 / .8)
  assert row['steps_per_sec_with_resets'] == pytest.approx(5 / 8.6)
  assert (row['reset_secs_median'], row['reset_secs_worst']) == (5, 9)
  assert row['step_cpu_ms'] == pytest.approx(15)
  assert row['reset_cpu_secs_median'] == 3
  assert (row['resets'], row['episode_steps']) == (3, 2.5)
  assert row['episode_return'] == (3 + 4) / 2
  # Two returns that differ by 1 have a standard error of a half.
  assert row['return_standard_error'] == pytest.approx(.5)


@pytest.mark.slow  # Starts a process for each level.
def test_level_that_cannot_be_played_is_named_and_others_are_measured(tmp_path):
  path = tmp_path / 'levels.csv'
  ran = programs.run(
      'lab.bench.levels', 'configs/catch.gin',
      '--gin_binding=EnvironmentConfig.level = '
      "'gym/CartPole-v1,gym/InvertedPendulum-v5,gym/NoSuchGame-v0'",
      '--steps=20', '--episodes=3', f'--csv={path}', timeout=250)
  assert ran.returncode == 1, ran.stderr
  assert 'gym/CartPole-v1' in ran.stdout and 'NoSuchGame' in ran.stdout
  with open(path, newline='') as file:
    played, continuous, refused = csv.DictReader(file)
  assert played['level'] == 'gym/CartPole-v1' and not played['error']
  assert float(played['mib']) > 10
  # A step is worth 1, and all episodes end.
  assert played['episode_return'] == played['episode_steps']
  assert int(played['resets']) >= 4
  assert not continuous['error'] and int(continuous['resets']) >= 4
  assert 'NoSuchGame' in refused['error'] and not refused['mib']
