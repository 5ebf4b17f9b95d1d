"""The evaluator against a real server: its games, their times and its rows."""

import dataclasses
import math

import imageio
import pytest

from impala_tf import config as config_lib
from impala_tf.comms import config_table
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import evaluation
from impala_tf.roles import evaluator
from impala_tf.runs import metrics

# Updates learn from 4 x 5 frames.
_CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(evaluation_episodes=3),
    environment=config_lib.EnvironmentConfig(level='catch'),
    agent=config_lib.AgentConfig(torso='mlp', hidden_size=4),
    learner=config_lib.LearnerConfig(batch_size=4, unroll_length=5))


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
def _serve():
  learners = []

  def serve(config):
    learners.append(_Learner(config))
    return learners[-1]

  yield serve
  for learner in learners:
    learner.stop()


def _give_up(cause):
  raise AssertionError(cause)


def _evaluator(config, learner, directory):
  return evaluator.Evaluator(config, learner.address, str(directory), 0,
                             _give_up)


def test_row_by_hand():
  row = evaluator.make_row(7, 700, {'a/b': evaluation.Evaluation(
      [1., 2., 6.], [10, 20, 60], {'won': [1., 0.]}, num_cut=1)})
  # Squared deviations 4, 1, 9: variance 7 with one degree of freedom lost.
  assert row == {
      'frames': 700, 'updates': 7, 'episodes': 3, 'episode_return': 3.,
      'standard_error': pytest.approx(math.sqrt(7 / 3)), 'episode_frames': 30.,
      'episode/won': 0.5, 'episodes_cut': 1}


def test_each_level_has_its_columns():
  row = evaluator.make_row(7, 700, {
      'a/b': evaluation.Evaluation([1., 3.], [1, 1], {'won': [1., 0.]}, 1),
      'c': evaluation.Evaluation([8.], [4], {'won': [1., 1.]}, 2)})
  assert row['episodes'] == 3 and row['episode_return'] == 4.
  assert row['level/a/b/episode_return'] == 2.
  assert row['level/a/b/standard_error'] == pytest.approx(1.)
  assert row['level/c/episode_return'] == 8.
  assert 'level/c/standard_error' not in row  # Of one game.
  assert row['episode/won'] == 0.75 and row['episodes_cut'] == 3
  assert row['level/a/b/episode/won'] == 0.5
  assert 'level/c/episodes_cut' not in row


def test_only_what_is_newer_is_played_and_each_has_a_row(serve, tmp_path):
  learner = serve(_CONFIG)
  learner.publish(3)
  follower = _evaluator(_CONFIG, learner, tmp_path)
  row = follower.run_once()
  assert (row['updates'], row['frames'], row['episodes']) == (3, 160, 3)
  assert row['episode_frames'] == 9
  assert follower.run_once() is None
  learner.publish(4)
  learner.publish(8)
  assert follower.run_once()['updates'] == 8
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [3, 8]
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

  config = dataclasses.replace(
      _CONFIG, environment=config_lib.EnvironmentConfig(
          level='tmaze/1,tmaze/2'),
      actor=config_lib.ActorConfig(num_actors=2, num_envs=3))
  learner = serve(config)
  learner.publish(1)
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
  resumed = serve(_CONFIG)  # From the checkpoint of update 5.
  resumed.publish(5)
  follower = _evaluator(_CONFIG, resumed, tmp_path)
  assert follower.run_once() is None  # It was played before.
  resumed.publish(7)
  follower.run_once()
  rows = metrics.read_rows(str(tmp_path))
  assert [row['updates'] for row in rows] == [2, 5, 7]


def test_learner_of_another_run_is_not_followed(serve, tmp_path):
  learner = serve(_CONFIG)
  learner.publish(1)
  other = dataclasses.replace(
      _CONFIG, impala=config_lib.ImpalaConfig(discount=0.5))
  with pytest.raises(ConnectionError, match='of another config now'):
    _evaluator(other, learner, tmp_path)


def test_first_game_is_filmed_where_the_config_asks_for_it(serve, tmp_path):
  config = dataclasses.replace(_CONFIG, experiment=dataclasses.replace(
      _CONFIG.experiment, evaluation_video_interval_secs=1e-9))
  learner = serve(config)
  learner.publish(7)
  _evaluator(config, learner, tmp_path).run_once()
  path, = (tmp_path / 'videos').iterdir()
  assert path.name == f'{100 + 7 * 20:012d}_catch.mp4'
  pictures = [picture for picture in imageio.v2.get_reader(path)]
  assert len(pictures) == 9 and pictures[0].shape == (400, 200, 3)


def test_videos_of_learning_that_was_lost_are_dropped(serve, tmp_path):
  config = dataclasses.replace(_CONFIG, experiment=dataclasses.replace(
      _CONFIG.experiment, evaluation_video_interval_secs=1e-9))
  (tmp_path / 'videos').mkdir()
  for version in 2, 5, 6, 7, 8, 9, 10:
    name = f'{100 + version * 20:012d}_catch.mp4'
    (tmp_path / 'videos' / name).touch()
  resumed = serve(config)  # From the checkpoint of update 5.
  resumed.publish(5)
  follower = _evaluator(config, resumed, tmp_path)
  resumed.publish(6)
  follower.run_once()
  assert sorted(path.name for path in (tmp_path / 'videos').iterdir()) == [
      f'{100 + version * 20:012d}_catch.mp4' for version in (2, 5, 6)]
