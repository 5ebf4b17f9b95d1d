"""The T-maze against its rules, and what chance earns there."""

import dm_env
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import tmaze

FIRST, MID, LAST = dm_env.StepType
UP, RIGHT, DOWN, LEFT = range(4)
CORRIDOR, JUNCTION = [0, 0, 1, 0], [0, 0, 0, 1]


def _step(env, *actions):
  """Plays one step; a single action is for all environments."""
  return env.step(np.resize(np.array(actions, np.int32), env.num_envs))


def _turns(observation):
  """Reads the right turns off the signals of first observations."""
  assert set(map(tuple, observation)) == {(1, 0, 0, 0), (0, 1, 0, 0)}
  return np.where(observation[:, 0] == 1, UP, DOWN)


@pytest.mark.parametrize('length', [1, 4, 10])
def test_who_remembers_the_signal_earns_1_in_length_plus_1_steps(length):
  env = tmaze.TMazeEnvironment(length, 64, seed=1)
  turns = _turns(env.reset().observation)
  for _ in range(3):
    for t in range(1, length + 1):
      row = _step(env, RIGHT)
      np.testing.assert_array_equal(row.step_type, MID)
      np.testing.assert_array_equal(row.discount, 1)
      np.testing.assert_array_equal(row.reward, 0)
      # The signal is gone, in every environment alike.
      np.testing.assert_array_equal(
          row.observation, [JUNCTION if t == length else CORRIDOR] * 64)
    row = env.step(turns.astype(np.int32))
    np.testing.assert_array_equal(row.reward, 1)
    np.testing.assert_array_equal(row.step_type, FIRST)
    np.testing.assert_array_equal(row.discount, 0)
    # And the next episode's is shown; it has nothing to do with the last.
    next_turns = _turns(row.observation)
    assert 10 < np.count_nonzero(next_turns == turns) < 54
    turns = next_turns


def test_walls_cost_a_tenth_and_the_start_hides_its_signal_afterwards():
  env = tmaze.TMazeEnvironment(2, 4, seed=1)
  env.reset()
  row = _step(env, UP, DOWN, LEFT, RIGHT)
  np.testing.assert_allclose(row.reward, [-0.1, -0.1, -0.1, 0])
  np.testing.assert_array_equal(row.observation, [CORRIDOR] * 4)
  row = _step(env, RIGHT, RIGHT, RIGHT, LEFT)
  np.testing.assert_array_equal(row.reward, 0)
  np.testing.assert_array_equal(row.observation, [CORRIDOR] * 4)
  row = _step(env, RIGHT)
  np.testing.assert_array_equal(row.observation, [JUNCTION] * 3 + [CORRIDOR])
  row = _step(env, RIGHT, LEFT, RIGHT, RIGHT)
  np.testing.assert_allclose(row.reward, [-0.1, 0, -0.1, 0])
  np.testing.assert_array_equal(
      row.observation, [JUNCTION, CORRIDOR, JUNCTION, JUNCTION])


def test_an_episode_is_truncated_after_ten_times_the_length():
  env = tmaze.TMazeEnvironment(3, 2, seed=1)
  env.reset()
  for _ in range(2):
    for t in range(1, 31):
      row = _step(env, LEFT, RIGHT)
      np.testing.assert_array_equal(row.step_type, LAST if t == 30 else MID)
      np.testing.assert_array_equal(row.discount, 1)
    row = _step(env, RIGHT, RIGHT)  # They are not played.
    np.testing.assert_array_equal(row.step_type, FIRST)
    np.testing.assert_array_equal(row.reward, 0)
    _turns(np.concatenate([row.observation, np.eye(4)[:2]]))  # Signals again.


def test_a_turn_on_the_last_step_terminates_that_environment_alone():
  env = tmaze.TMazeEnvironment(1, 8, seed=1)
  wrong = UP + DOWN - _turns(env.reset().observation)
  for _ in range(9):
    _step(env, RIGHT)
  wrong[0] = LEFT
  row = env.step(wrong.astype(np.int32))
  assert row.step_type.tolist() == [LAST] + 7 * [FIRST]
  assert row.discount.tolist() == [1] + 7 * [0]
  assert row.reward.tolist() == [0] + 7 * [-1]


@pytest.mark.parametrize('text', [
    '0', '-1', '1001', 'ten', '', '1_0', ' 5', '٣'])
def test_a_corridor_of_no_length_is_refused(text):
  with pytest.raises(config.ConfigError, match='1 to 1000 cells') as error:
    tmaze.corridor_length(text)
  assert repr(text) in str(error.value)
