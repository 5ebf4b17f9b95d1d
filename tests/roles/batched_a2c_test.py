"""Batched A2C: each batch was played by the parameters that learn from it."""

import functools

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.envs import catch
from impala_tf.envs import env_processes
from impala_tf.roles import batched_a2c
from impala_tf.roles import learner_with_actors
from impala_tf.runs import metrics
from impala_tf.runtime import control as control_lib
from tests.fixtures import hosts
from tests.fixtures import programs
from tests.fixtures import spoilt_catch
from tests.fixtures import worker_environments
from tests.fixtures.faults import runs

pytestmark = pytest.mark.usefixtures('servers_stay')

_FRAMES_PER_UPDATE = 8 * 5
_UPDATES = 5


class _Fetcher:
  """A fetcher of these versions of these learners, one after the other."""

  def __init__(self, versions, learners):
    self._parameters = zip(versions, learners)

  def fetch(self):
    version, self.learner = next(self._parameters)
    return version


@pytest.mark.parametrize('versions, learners, expected', [
    ([3, 3, 3, 4, 4, 6], 'aaaaaa', [3, 4, 6]),
    # A learner that came back has lost what was played by its parameters.
    ([4, 5, 5, 5, 3, 3, 4], 'aaabbcc', [4, 5, 5, 3, 3, 4])])
def test_parameters_are_waited_for_until_they_are_new(
    versions, learners, expected):
  fetcher = batched_a2c.NewerFetcher(_Fetcher(versions, learners))
  assert [fetcher.fetch() for _ in expected] == expected


def test_all_environments_wait_for_the_slowest(start_workers, tmp_path):
  gate = tmp_path / 'gate'
  num_envs, times = 3, []

  def check():
    if times == [0, 1, 2]:  # Environment 0 is at its third step.
      gate.touch()

  together = batched_a2c.SteppedTogether(start_workers(functools.partial(
      worker_environments.Faulty, str(gate), 0), num_envs, num_envs), check)
  timestep = together.reset()
  actions = np.zeros(num_envs, np.int32)
  for time in range(5):
    number, shown_time = timestep.observation[:, 0, :2].T
    np.testing.assert_array_equal(number, [1, 2, 3])
    np.testing.assert_array_equal(shown_time, [time] * num_envs)
    times.append(time)
    timestep = together.step(actions)


def _config(synchronisation, **actor):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          in_process=True, total_frames=_UPDATES * _FRAMES_PER_UPDATE),
      environment=config_lib.EnvironmentConfig(level='catch,catch/mirrored'),
      agent=config_lib.AgentConfig(
          torso='mlp', hidden_size=8, use_lstm=True, lstm_size=4),
      actor=config_lib.ActorConfig(synchronisation=synchronisation, **actor),
      # Far enough that ratios of the policy before an update would be seen.
      optimizer=config_lib.OptimizerConfig(learning_rate=0.05, annealed=False),
      learner=config_lib.LearnerConfig(batch_size=8, unroll_length=5))


def _check(rows):
  """Checks that each batch was played by the parameters that learned of it."""
  for row in rows:
    assert row['policy_lag'] == row['policy_lag_max'] == 0
    assert row['rho/mean'] == pytest.approx(1, abs=1e-5)
    assert row['rho/clipped_share'] == 0


def _rows(config, run_dir, host=None):
  hosts.run_in_process(config, run_dir, host)
  return metrics.read_rows(str(run_dir))


@pytest.mark.parametrize('synchronisation', ['step', 'trajectory'])
@pytest.mark.slow
def test_lag_is_0_and_ratios_are_1_in_one_process(tmp_path, synchronisation):
  rows = _rows(_config(synchronisation), tmp_path)
  assert [row['frames'] for row in rows] == [
      _FRAMES_PER_UPDATE * (n + 1) for n in range(_UPDATES)]
  _check(rows)
  assert rows[-1]['level/catch/mirrored/frames'] == rows[-1]['frames'] / 2
  assert rows[0]['gradient_norm'] != rows[-1]['gradient_norm']


def test_one_nan_spoils_one_return(tmp_path, monkeypatch):
  spoilt_catch.spoil_one_reward(monkeypatch)
  # Without an LSTM, which would remember the NaN: then no action can be drawn.
  rows = _rows(_config('step').replaced('agent', use_lstm=False), tmp_path)
  assert rows[-1]['updates_skipped'] == 1
  # Episodes have 9 steps, and all environments end them together.
  assert [row['episodes'] for row in rows] == [0, 8, 8, 16, 16]
  for row in rows[1:]:
    assert abs(row['episode_return']) <= 100
    assert abs(row['level/catch/episode_return']) <= 1


def test_stop_is_heard_within_an_unroll(tmp_path):
  asked = []

  def should_stop():
    asked.append(None)
    return len(asked) > 8  # Within the second unroll.

  assert [row['updates'] for row in _rows(
      _config('step'), tmp_path, hosts.StoppedBy(should_stop))] == [1]


def test_environments_that_die_too_often_end_the_run(tmp_path, monkeypatch):
  steps = []

  def die(self, actions):
    del self, actions
    steps.append(None)
    raise env_processes.WorkerError('environment 2 was killed')

  monkeypatch.setattr(catch.CatchEnvironment, 'step', die)
  with pytest.raises(env_processes.WorkerError, match='environment 2'):
    _rows(_config('step', max_restarts=2), tmp_path)
  assert len(steps) == 3


def test_actor_of_a_learner_that_plays_is_refused():
  with pytest.raises(config_lib.ConfigError, match='start no actors'):
    learner_with_actors.run_actor(
        _config('step'), 'localhost:1', 0, 0, control_lib.ActorControl())


_FORMS = {
    'sync_step': {'synchronisation': 'step', 'num_envs': 8, 'env_processes': 2},
    'sync_trajectory': {'synchronisation': 'trajectory', 'num_actors': 2},
    'dynamic_batch': {'synchronisation': 'trajectory', 'num_envs': 8,
                      'env_processes': 2}}


@pytest.mark.slow
@pytest.mark.parametrize('form', _FORMS)
def test_lag_is_0_in_processes_that_are_killed_and_in_those_that_go_on(
    tmp_path, form):
  bindings = [runs.bind(f'ActorConfig.{name}', value)
              for name, value in _FORMS[form].items()]
  bindings += [runs.bind('AgentConfig.use_lstm', True),
               runs.bind('ExperimentConfig.evaluation_episodes', 2),
               runs.bind('ExperimentConfig.evaluation_interval_secs', 1.)]
  evaluation = tmp_path / 'evaluation'
  with runs.training(tmp_path, *bindings, '--evaluate') as run:
    run.wait_for_frames()
    for victims in (lambda: run.pids('actor'),
                    lambda: programs.children(
                        'spawn_main', run.pids('learner') + run.pids('actor'))):
      found = victims()
      for pid in found[:1]:
        programs.kill(pid)
        run.wait(lambda: len(now := victims()) == len(found)  # noqa: B023
                 and pid not in now, 'one in its place')  # noqa: B023
      run.wait_for_frames()
    run.wait(lambda: metrics.read_rows(str(evaluation)), 'an evaluation')
    run.stop()
  before = len(run.rows())
  with runs.training(tmp_path, *bindings) as run:
    run.wait(lambda: len(run.rows()) > before + 2, 'rows of the resumed run')
    run.stop()
  rows = run.rows()
  _check(rows)
  assert rows[-1]['frames'] == rows[-1]['updates'] * _FRAMES_PER_UPDATE
