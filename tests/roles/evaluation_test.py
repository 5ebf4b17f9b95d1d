"""Evaluations are exactly N full episodes, each environment its share.

The evaluator's games, times and rows are tried with a real server.
"""

import math

import dm_env
import imageio
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.comms import config_table
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.envs import environment as environment_lib
from impala_tf.maths import distributions
from impala_tf.roles import evaluation
from impala_tf.runs import metrics

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


class _EndlessEnvironment(_Environment):
  """Environments that pay 1 a step; the first does not end its third game.

  With `ends_late` it does after 10 steps, not after 2.
  """
  episode_metric_names = ('number',)

  def __init__(self, num_envs, ends_late):
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


def _evaluate(environment, num_episodes, **options):
  return evaluation.evaluate(
      _CountingAgent(), environment, num_episodes, seed=0, **options)


@pytest.mark.parametrize('num_episodes, expected', [
    # (return, frames) of each environment's first episodes, longest last.
    (1, [(0, 4)]),
    (3, [(0, 4), (10, 8), (20, 12)]),
    # Environment 0 has ended four more by the time the others are done.
    (5, [(0, 4), (1, 4), (10, 8), (11, 8), (20, 12)]),
    (6, [(0, 4), (1, 4), (10, 8), (11, 8), (20, 12), (21, 12)])])
def test_each_environment_plays_its_share(num_episodes, expected):
  result = _evaluate(_Environment(3), num_episodes, max_frames=13)
  assert sorted(zip(result.returns, result.frames)) == expected
  assert result.num_cut == 0


def test_it_stops_with_the_last_episode_and_carries_memory_to_it():
  environment = _Environment(3)
  _evaluate(environment, 6)
  # Two episodes of three steps; no step in vain.
  assert environment.actions == [[t] * 3 for t in range(6)]


def test_game_that_is_lost_with_its_simulator_is_played_again():

  class Failing(_Environment):
    def step(self, actions):
      timestep = super().step(actions)
      if len(self.actions) == 3:  # Environment 2's first game ends there.
        timestep.discount[2] = 1
      return timestep

  result = _evaluate(Failing(3), 3)
  assert sorted(zip(result.returns, result.frames)) == [
      (0, 4), (10, 8), (21, 12)]


def test_beginning_and_each_step_report_how_many_episodes_have_ended():
  numbers = []
  _evaluate(_Environment(2), 4, on_step=numbers.append)
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


@pytest.mark.parametrize('ends_late', [False, True])
def test_game_without_end_is_cut_off_and_is_the_last_of_its_copy(ends_late):
  result = _evaluate(_EndlessEnvironment(2, ends_late), 10, max_frames=24)
  # Games of 8 frames: two of the first copy, five of the second, and one of 24.
  assert sorted(zip(result.frames, result.returns)) == [(8, 2)] * 7 + [(24, 6)]
  assert result.num_cut == 1 and result.interruption is None
  # The level's numbers are those of the games that ended.
  assert sorted(result.metrics['number']) == [0.] * 2 + [1.] * 5
  assert result.summary()['episodes_cut'] == 1


def test_copy_whose_late_game_ends_in_time_plays_on():
  # The second copy has 7 games, which take as long as the late one.
  result = _evaluate(_EndlessEnvironment(2, ends_late=True), 14, max_frames=24)
  assert result.num_cut == 1 and sorted(result.frames) == [8] * 13 + [24]


def test_games_that_are_lost_again_and_again_are_an_error():
  # They are FIRST with discount 1, and no LAST came before.
  environment = _Environment(1)
  environment.level, step = 'failing', environment.step
  environment.step = lambda actions: step(actions)._replace(
      discount=np.ones(1, np.float32))
  with pytest.raises(environment_lib.SimulatorError, match='11 games were'):
    _evaluate(environment, 3)


def test_ctrl_c_leaves_the_games_that_are_over():
  def interrupt(num_ended):
    if num_ended > 1:
      raise KeyboardInterrupt

  result = _evaluate(_Environment(2), 20, on_step=interrupt)
  assert result.interruption is not None and result.returns == [0., 1., 10.]


def test_progress_is_reported_less_and_less_often():
  environment, said = _Environment(2), []
  _evaluate(environment, 100, say=said.append,
            clock=lambda: float(len(environment.actions)))
  # The second copy's games take two steps, of four frames for each copy.
  assert said == ['15 of 100 games are over, 80 frames',
                  '30 of 100 games are over, 160 frames',
                  '60 of 100 games are over, 320 frames',
                  '90 of 100 games are over, 640 frames']


# The evaluator.

# Updates learn from 4 x 5 frames.
_CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(evaluation_episodes=3),
    environment=config_lib.EnvironmentConfig(level='catch'),
    agent=config_lib.AgentConfig(torso='mlp', hidden_size=4),
    learner=config_lib.LearnerConfig(batch_size=4, unroll_length=5))
_FILMED = _CONFIG.replaced('experiment', evaluation_video_interval_secs=1e-9)


class _Learner:
  """A learner as far as an evaluator sees it."""

  def __init__(self, config):
    environment = experiment.make_environment(config, 1, 0, training=True)
    agent = experiment.make_agent(config, environment)
    self._server = queue_lib.make_server([
        config_table.make_table(config),
        *weights.make_tables(agent.published_variables)], None)
    self.address = f'localhost:{self._server.port}'
    # A run of 100 frames that was resumed with this config.
    self._publisher = weights.Publisher(
        weights.make_snapshot(agent.published_variables),
        lambda version: 100 + version * 20, [weights.Table(self.address).write])
    self._variables = agent.published_variables

  def publish(self, version, value=None):
    if value is not None:
      for variable in self._variables:
        variable.assign(variable * 0 + value)
    self._publisher.publish(version)

  def stop(self):
    self._server.stop()


@pytest.fixture(name='serve')
def _serve(request):
  """Makes a learner that has published these versions, if any."""

  def serve(config, *versions):
    learner = _Learner(config)
    request.addfinalizer(learner.stop)
    for version in versions:
      learner.publish(version)
    return learner

  return serve


def _evaluator(config, learner, directory):
  return evaluation.Evaluator(config, learner.address, str(directory), 0,
                             pytest.fail)


def test_row_by_hand():
  row = evaluation.make_row(7, 700, {'a/b': evaluation.Evaluation(
      [1., 2., 6.], [10, 20, 60], {'won': [1., 0.]}, num_cut=1)})
  # Squared deviations 4, 1, 9: variance 7 with one degree of freedom lost.
  assert row == {
      'frames': 700, 'updates': 7, 'episodes': 3, 'episode_return': 3.,
      'standard_error': pytest.approx(math.sqrt(7 / 3)), 'episode_frames': 30.,
      'episode/won': 0.5, 'episodes_cut': 1}


def test_each_level_has_its_columns():
  row = evaluation.make_row(7, 700, {
      'a/b': evaluation.Evaluation([1., 3.], [1, 1], {'won': [1., 0.]}, 1),
      'c': evaluation.Evaluation([8.], [4], {'won': [1., 1.]}, 2)})
  assert row['episodes'] == 3 and row['episode_return'] == 4.
  assert row['level/a/b/episode_return'] == 2.
  assert row['level/a/b/standard_error'] == pytest.approx(1.)
  assert 'standard_error' not in row  # The levels differ more than their games.
  assert row['level/c/episode_return'] == 8.
  assert 'level/c/standard_error' not in row  # Of one game.
  assert row['episode/won'] == 0.75 and row['episodes_cut'] == 3
  assert row['level/a/b/episode/won'] == 0.5
  assert 'level/c/episodes_cut' not in row


def test_only_what_is_newer_is_played_and_each_has_a_row(serve, tmp_path):
  learner = serve(_CONFIG, 3)
  follower = _evaluator(_CONFIG, learner, tmp_path)
  row = follower.run_once()
  assert (row['updates'], row['frames'], row['episodes']) == (3, 160, 3)
  assert row['episode_frames'] == 9
  assert follower.run_once() is None
  learner.publish(4)
  learner.publish(8)
  assert follower.run_once()['updates'] == 8
  assert [r['updates'] for r in metrics.read_rows(str(tmp_path))] == [3, 8]
  _evaluator(_CONFIG, serve(_CONFIG, 1), tmp_path)  # Perhaps of another run.
  assert not metrics.read_rows(str(tmp_path))
  assert list((tmp_path / 'tensorboard').glob('events.*'))


def test_it_plays_with_the_parameters_that_it_fetched(
    serve, tmp_path, monkeypatch):
  played = []

  def evaluate(agent, environment, num_episodes, *unused, **settings):
    played.append([float(v.numpy().max()) for v in agent.trainable_variables])
    return evaluation.Evaluation([0.] * num_episodes, [1] * num_episodes)

  monkeypatch.setattr(evaluation, 'evaluate', evaluate)
  learner = serve(_CONFIG)
  learner.publish(1, value=1.)
  follower = _evaluator(_CONFIG, learner, tmp_path)
  follower.run_once()
  learner.publish(2, value=2.)
  follower.run_once()
  assert [set(values) for values in played] == [{1.}, {2.}]


def test_environments_are_those_of_evaluation_and_other_each_time(
    serve, tmp_path, monkeypatch):
  made = []
  make_environment = experiment.make_environment

  def note(config, num_envs, seed, training, first_slot):
    # No number of an actor's or worker's.
    assert first_slot >= max(config.asynchronous.num_workers, 2 * 3)
    made.append((config.environment.level, num_envs, seed, training))
    return make_environment(config, num_envs, seed, training)

  config = _CONFIG.replaced('environment', level='tmaze/1,tmaze/2').replaced(
      'actor', num_actors=2, num_envs=3)
  learner = serve(config, 1)
  monkeypatch.setattr(experiment, 'make_environment', note)
  follower = _evaluator(config, learner, tmp_path)
  del made[:]
  follower.run_once()
  learner.publish(2)
  row = follower.run_once()
  assert [(level, num_envs) for level, num_envs, _, _ in made] == [
      ('tmaze/1', 3), ('tmaze/2', 3)] * 2
  assert not any(training for *_, training in made)
  assert len({seed for _, _, seed, _ in made}) == 4
  assert row['episodes'] == 6
  assert {'level/tmaze/1/episode_return', 'level/tmaze/2/episode_return'
          } <= row.keys()


def test_rows_go_on_where_they_were_and_lost_learning_is_forgotten(
    serve, tmp_path):
  learner = serve(_CONFIG)
  for version in (2, 5, 9):
    learner.publish(version)
    _evaluator(_CONFIG, learner, tmp_path).run_once()
  resumed = serve(_CONFIG, 5)  # From the checkpoint of update 5.
  follower = _evaluator(_CONFIG, resumed, tmp_path)
  assert follower.run_once() is None  # It was played before.
  resumed.publish(7)
  follower.run_once()
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [2, 5, 7]


def test_learner_of_another_run_is_not_followed(serve, tmp_path):
  learner = serve(_CONFIG, 1)
  with pytest.raises(ConnectionError, match='of another config now'):
    _evaluator(_CONFIG.replaced('impala', discount=0.5), learner, tmp_path)


def test_first_game_is_filmed_where_the_config_asks_for_it(serve, tmp_path):
  _evaluator(_FILMED, serve(_FILMED, 7), tmp_path).run_once()
  path, = (tmp_path / 'videos').iterdir()
  assert path.name == f'{100 + 7 * 20:012d}_catch.mp4'
  pictures = [picture for picture in imageio.v2.get_reader(path)]
  assert len(pictures) == 10 and pictures[0].shape == (400, 200, 3)


def test_videos_of_learning_that_was_lost_are_dropped(serve, tmp_path):
  (tmp_path / 'videos').mkdir()
  for version in 2, 5, 6, 7, 8, 9, 10:
    (tmp_path / 'videos' / f'{100 + version * 20:012d}_catch.mp4').touch()
  resumed = serve(_FILMED, 5)  # From the checkpoint of update 5.
  follower = _evaluator(_FILMED, resumed, tmp_path)
  resumed.publish(6)
  follower.run_once()
  assert sorted(path.name for path in (tmp_path / 'videos').iterdir()) == [
      f'{100 + version * 20:012d}_catch.mp4' for version in (2, 5, 6)]
