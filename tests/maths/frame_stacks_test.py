"""Re-stacked frames against the stacks that environments returned."""

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf.envs import atari
from impala_tf.maths import frame_stacks

T, B = 20, 2


def _as_actors_send(stacks, step_types):
  """Yields overlapping unrolls of frames, step types and true stacks."""
  for start in range(0, len(stacks) - T, T):
    unroll = slice(start, start + T + 1)
    rest = stacks[start + 1:start + T + 1, ..., -1]
    sent = np.concatenate([np.moveaxis(stacks[start], -1, 0), rest])
    yield sent, step_types[unroll], stacks[unroll]


# Steps in which each game ends; Pong's time limit is made to fall within them.
@pytest.mark.parametrize('game, num_steps, options', [
    ('pong', 400, dict(max_episode_frames=4 * 103)),
    ('breakout', 400, {}),
    ('space_invaders', 600, {}),
    ('seaquest', 600, {})])
def test_stacks_are_the_environments_own_through_lives_and_games(
    game, num_steps, options):
  env = atari.AtariEnvironment(game, B, 3, config.AtariConfig(**options))
  rng = np.random.default_rng(0)
  row = env.reset()
  stacks, step_types, discounts = [], [], []
  for _ in range(num_steps + 1):
    stacks.append(row.observation.copy())
    step_types.append(row.step_type)
    discounts.append(row.discount)
    actions = rng.integers(env.action_spec().num_values, size=B)
    row = env.step(actions.astype(np.int32))
  stacks, step_types = np.array(stacks), np.array(step_types)
  # Ends of games, and lives lost within them, in the middle of unrolls.
  ends = np.flatnonzero((step_types[1:] == 0).any(axis=1)) + 1
  assert (ends % T != 0).any()
  life_losses = (np.array(discounts) == 0) & (step_types != 0)
  assert life_losses.any() == (game != 'pong')
  restack = tf.function(frame_stacks.restack)
  for sent, step_type, expected in _as_actors_send(stacks, step_types):
    sent = np.reshape(sent, [T + 4, B, 84, 84])
    np.testing.assert_array_equal(
        restack(tf.constant(sent), tf.constant(step_type)), expected)


def _slide(frames_, step_type, size):
  """Makes stacks one environment and one row at a time."""
  num_steps, batch = step_type.shape
  stacks = np.zeros((num_steps, batch) + frames_.shape[2:] + (size,), np.uint8)
  for b in range(batch):
    stack = list(frames_[:size, b])
    stacks[0, b] = np.stack(stack, -1)
    for t in range(1, num_steps):
      if step_type[t, b] == 0:
        stack = [np.zeros_like(frames_[0, b])] * size
      stack = stack[1:] + [frames_[t + size - 1, b]]
      stacks[t, b] = np.stack(stack, -1)
  return stacks


@pytest.mark.parametrize('size, compiled', [
    (1, False), (2, False), (3, False), (4, False), (4, True), (5, False),
    (8, False)])
def test_any_size_of_stack_and_any_pattern_of_starts(size, compiled):
  num_steps, batch = 7, 5
  rng = np.random.default_rng(size)
  step_type = rng.integers(2, size=(num_steps, batch)).astype(np.uint8)
  step_type[:, 0], step_type[:, 1] = 1, 0  # None and all; row 0 both ways.
  frames_ = rng.integers(
      1, 256, size=(num_steps - 1 + size, batch, 3, 6)).astype(np.uint8)
  restack = tf.function(frame_stacks.restack, jit_compile=compiled)
  stacks = restack(tf.constant(frames_), tf.constant(step_type))
  assert stacks.dtype == tf.uint8
  np.testing.assert_array_equal(stacks, _slide(frames_, step_type, size))


@pytest.mark.parametrize('frames_shape, dtype, steps_shape', [
    ([6, 2, 5, 5], tf.float32, [3, 2]),
    ([6, 2, 5, 5, 1], tf.uint8, [3, 2]),
    ([6, 2, 5, 5], tf.uint8, [3]),
    ([2, 2, 5, 5], tf.uint8, [3, 2]),   # S = 0.
    ([11, 2, 5, 5], tf.uint8, [3, 2]),  # S = 9.
])
def test_inputs_that_are_no_unroll_are_refused(
    frames_shape, dtype, steps_shape):
  with pytest.raises(ValueError):
    frame_stacks.restack(tf.zeros(frames_shape, dtype),
                         tf.zeros(steps_shape, tf.uint8))
