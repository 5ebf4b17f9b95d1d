"""Evaluations are exactly N full episodes, each environment its share."""

import math

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import types
from impala_tf.envs import environment as environment_lib
from impala_tf.maths import distributions
from impala_tf.roles import evaluation

FIRST, MID = int(dm_env.StepType.FIRST), int(dm_env.StepType.MID)


class _Environment:
  """Environments: number e has episodes of e+1 steps, with return `10 e + n`.

  n counts its episodes; the reward comes at an episode's end.
  """
  episode_metric_names = ()
  frames_per_step = 4
  reward_scale = 1.
  side_channels = environment_lib.NO_SIDE_CHANNELS

  def __init__(self, num_envs):
    self.num_envs = num_envs
    self.actions = []
    self._steps = np.zeros(num_envs, int)
    self._episodes = np.zeros(num_envs, int)

  def reset(self):
    return self._timestep(np.ones(self.num_envs, bool), 0.)._replace(
        discount=np.ones(self.num_envs, np.float32))

  def step(self, actions):
    self.actions.append(actions.tolist())
    self._steps += 1
    ends = self._steps % (np.arange(self.num_envs) + 1) == 0
    rewards = np.where(ends, 10 * np.arange(self.num_envs) + self._episodes, 0)
    self._episodes += ends
    return self._timestep(ends, rewards)

  def _timestep(self, is_first, rewards):
    return dm_env.TimeStep(
        np.where(is_first, FIRST, MID).astype(np.uint8),
        np.broadcast_to(np.float32(rewards), self.num_envs),
        1 - np.float32(is_first),
        np.zeros((self.num_envs, 1), np.float32))


class _FailingEnvironment(_Environment):
  """Environments whose games are lost: FIRST with discount 1, and no LAST."""
  level = 'failing'

  def _timestep(self, is_first, rewards):
    return super()._timestep(is_first, rewards)._replace(
        discount=np.ones(self.num_envs, np.float32))


class _EndlessEnvironment(_Environment):
  """Environments that pay 1 a step; the first does not end its third game.

  With `ends_late` it does after 10 steps, not after 2.
  """
  episode_metric_names = ('number',)

  def __init__(self, num_envs, ends_late=False):
    super().__init__(num_envs)
    self._ends_late = ends_late

  def step(self, actions):
    self._steps += 1
    self._episodes += 1
    ends = self._steps % 2 == 0
    if self._steps[0] > 4 and not (self._ends_late and self._steps[0] >= 14):
      ends[0] = False
    self.side_channels = environment_lib.SideChannels(episode_metrics=(
        np.arange(self.num_envs, dtype=np.float32)[:, np.newaxis]))
    return self._timestep(ends, 1.)


class _CountingAgent:
  """An agent whose memory and action are the number of steps so far."""
  distribution = distributions.Categorical(2)
  reads_rewards = False

  def initial_state(self, batch_size):
    return tf.zeros([batch_size], tf.int32)

  def step(self, env_output, core_state, seed, deterministic):
    del env_output, seed, deterministic
    logits = tf.zeros([core_state.shape[0], 2])
    return types.AgentOutput(core_state, logits), core_state + 1


@pytest.mark.parametrize('num_episodes, expected', [
    # (return, frames) of each environment's first episodes, longest last.
    (1, [(0, 4)]),
    (3, [(0, 4), (10, 8), (20, 12)]),
    # Environment 0 has ended four more by the time the others are done.
    (5, [(0, 4), (1, 4), (10, 8), (11, 8), (20, 12)]),
    (6, [(0, 4), (1, 4), (10, 8), (11, 8), (20, 12), (21, 12)])])
def test_each_environment_plays_its_share(num_episodes, expected):
  result = evaluation.evaluate(
      _CountingAgent(), _Environment(3), num_episodes, seed=0, max_frames=13)
  assert sorted(zip(result.returns, result.frames)) == expected
  assert result.num_cut == 0


def test_it_stops_with_the_last_episode_and_carries_memory_to_it():
  environment = _Environment(3)
  evaluation.evaluate(_CountingAgent(), environment, 6, seed=0)
  # Two episodes of three steps; no step in vain.
  assert environment.actions == [[t] * 3 for t in range(6)]


def test_game_that_is_lost_with_its_simulator_is_played_again():

  class Failing(_Environment):
    def step(self, actions):
      timestep = super().step(actions)
      if len(self.actions) == 3:  # Environment 2's first game ends there.
        timestep.discount[2] = 1
      return timestep

  result = evaluation.evaluate(_CountingAgent(), Failing(3), 3, seed=0)
  assert sorted(zip(result.returns, result.frames)) == [
      (0, 4), (10, 8), (21, 12)]


def test_beginning_and_each_step_report_how_many_episodes_have_ended():
  numbers = []
  evaluation.evaluate(_CountingAgent(), _Environment(2), 4, 0, numbers.append)
  assert numbers == [0, 1, 2, 3, 4]


def test_summary_by_hand():
  summary = evaluation.Evaluation(
      [1., 2., 3., 10.], [40, 80, 120, 160]).summary()
  # Mean 4; squared deviations 9, 4, 1, 36: variance 50/3 with one degree of
  # freedom lost, over 4 episodes.
  assert summary == {
      'episodes': 4, 'mean': 4., 'median': 2.5,
      'standard_error': pytest.approx(math.sqrt(50 / 3 / 4)),
      'min': 1., 'max': 10., 'mean_episode_frames': 100.}
  assert evaluation.Evaluation([3.], [40]).summary()['standard_error'] is None


def _endless(num_episodes, max_frames, **options):
  return evaluation.evaluate(
      _CountingAgent(), _EndlessEnvironment(2, **options), num_episodes, seed=0,
      max_frames=max_frames)


@pytest.mark.parametrize('ends_late', [False, True])
def test_game_without_end_is_cut_off_and_is_the_last_of_its_copy(ends_late):
  result = _endless(10, 24, ends_late=ends_late)
  # Games of 8 frames: two of the first copy, five of the second, and one of 24.
  assert sorted(zip(result.frames, result.returns)) == [(8, 2)] * 7 + [(24, 6)]
  assert result.num_cut == 1 and result.interruption is None
  # The level's numbers are those of the games that ended.
  assert sorted(result.metrics['number']) == [0.] * 2 + [1.] * 5
  assert result.summary()['episodes_cut'] == 1


def test_copy_whose_late_game_ends_in_time_plays_on():
  # The second copy has 7 games, which take as long as the late one.
  result = _endless(14, 24, ends_late=True)
  assert result.num_cut == 1
  assert sorted(result.frames) == [8] * 13 + [24]


def test_games_that_are_lost_again_and_again_are_an_error():
  with pytest.raises(environment_lib.SimulatorError, match='11 games were'):
    evaluation.evaluate(_CountingAgent(), _FailingEnvironment(1), 3, seed=0)


def test_ctrl_c_leaves_the_games_that_are_over():
  def interrupt(num_ended):
    if num_ended > 1:
      raise KeyboardInterrupt

  result = evaluation.evaluate(
      _CountingAgent(), _Environment(2), 20, seed=0, on_step=interrupt)
  assert result.interruption is not None and result.returns == [0., 1., 10.]


def test_progress_is_reported_less_and_less_often():
  environment, said = _Environment(2), []
  evaluation.evaluate(
      _CountingAgent(), environment, 100, seed=0, say=said.append,
      clock=lambda: float(len(environment.actions)))
  # The second copy's games take two steps, of four frames for each copy.
  assert said == ['15 of 100 games are over, 80 frames',
                  '30 of 100 games are over, 160 frames',
                  '60 of 100 games are over, 320 frames',
                  '90 of 100 games are over, 640 frames']
