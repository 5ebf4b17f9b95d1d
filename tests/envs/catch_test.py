"""Catch against its rules, read off the board."""

import dm_env
import numpy as np

from impala_tf import config
from impala_tf.envs import catch
from impala_tf.envs import factory

E = 64
LEFT, STAY, RIGHT = 0, 1, 2


def _positions(board):
  """Reads the ball's row, and the columns of ball and paddle, off a board."""
  board = board[:10]
  (row,), (ball,) = np.nonzero(board[:-1])
  (paddle,) = np.flatnonzero(board[-1])
  return int(row), int(ball), int(paddle)


def _step(env, action):
  return env.step(np.full(E, action, np.int32))


def test_ball_falls_straight_and_starts_in_every_column():
  env = catch.CatchEnvironment(E, seed=1)
  start = [_positions(b) for b in env.reset().observation]
  assert {row for row, _, _ in start} == {0}
  assert {ball for _, ball, _ in start} == set(range(5))
  assert {paddle for _, _, paddle in start} == {2}
  for t in range(1, 9):
    boards = [_positions(b) for b in _step(env, STAY).observation]
    assert boards == [(t, ball, 2) for _, ball, _ in start]


def test_paddle_moves_one_column_and_stops_at_the_walls():
  env = catch.CatchEnvironment(E, seed=1)
  env.reset()
  paddles = [_positions(_step(env, a).observation[0])[2]
             for a in (LEFT, STAY, LEFT, LEFT, RIGHT)]
  assert paddles == [1, 1, 0, 0, 1]
  env.reset()
  paddles = [_positions(_step(env, a).observation[0])[2]
             for a in (RIGHT, RIGHT, RIGHT, LEFT)]
  assert paddles == [3, 4, 4, 3]


def test_an_episode_takes_nine_steps_and_only_the_last_has_a_reward():
  env = catch.CatchEnvironment(E, seed=1)
  env.reset()
  ends = []  # Places of ball and paddle in the last row at the end.
  env.on_termination = lambda: ends.append(env.render()[-1].any(-1).sum())
  for _ in range(3):
    for t in range(1, 10):
      row = _step(env, STAY)
      end = t == 9
      np.testing.assert_array_equal(
          row.step_type, dm_env.StepType.FIRST if end else dm_env.StepType.MID)
      np.testing.assert_array_equal(row.discount, 0 if end else 1)
      np.testing.assert_array_equal(abs(row.reward), 1 if end else 0)
      assert ends == ([1 if row.reward[0] > 0 else 2] if end else [])
    ends.clear()
    # The row that ends the episode shows the next one's first board.
    assert {_positions(b)[0] for b in row.observation} == {0}
    assert {_positions(b)[2] for b in row.observation} == {2}


def _act(boards, policies):
  """Chooses actions [E] that follow the ball (True) or flee from it."""
  actions = []
  for board, follows in zip(boards, policies):
    _, ball, paddle = _positions(board)
    away = LEFT if ball > 2 else RIGHT
    actions.append(1 + np.sign(ball - paddle) if follows else away)
  return np.array(actions, np.int32)


def test_delayed_pays_for_five_balls_in_one_sum_at_the_end():
  env = factory.make_environment(
      'catch/delayed', E, 3, config.Config(), training=True)
  boards = env.reset().observation
  for _ in range(2):  # Nothing is owed from one episode to the next.
    follows = np.random.default_rng(0).random((5, E)) < 0.6
    for t in range(1, 46):
      row = env.step(_act(boards, follows[(t - 1) // 9]))
      boards = row.observation
      end = t == 45
      np.testing.assert_array_equal(
          row.step_type, dm_env.StepType.FIRST if end else dm_env.StepType.MID)
      np.testing.assert_array_equal(row.discount, 0 if end else 1)
      if not end:
        np.testing.assert_array_equal(row.reward, 0)
      # Each ball, not the first one only, starts at the top.
      assert {_positions(b)[0] for b in boards} == {t % 9}
      # A catch is shown as soon as it is known, and not sooner.
      tally = np.where(follows.T, 1, -1)
      tally[:, 0 if end else t // 9:] = 0
      np.testing.assert_array_equal(boards[:, 10], tally)
    np.testing.assert_array_equal(row.reward, 2 * follows.sum(0) - 5)
    for _ in range(20):  # Nor after a reset.
      env.step(_act(boards, [True] * E))
    boards = env.reset().observation
  assert {-5, 5} & set(row.reward) and len(set(row.reward)) > 3


def test_mirror_turns_moves_and_signs_around_and_pays_a_hundredfold():
  env, mirrored = (factory.make_environment(
      level, E, 3, config.Config(), training=True)
                   for level in ('catch', 'catch/mirrored'))
  np.testing.assert_array_equal(
      mirrored.reset().observation, -env.reset().observation)
  rng = np.random.default_rng(0)
  rewards = set()
  for _ in range(30):
    actions = rng.integers(3, size=E).astype(np.int32)
    row, other = env.step(actions), mirrored.step(2 - actions)
    np.testing.assert_array_equal(other.observation, -row.observation)
    np.testing.assert_array_equal(other.reward, 100 * row.reward)
    np.testing.assert_array_equal(other.discount, row.discount)
    rewards |= set(other.reward)
  assert rewards == {-100, 0, 100}
