"""Tests of actors that are killed while the learner checks every unroll."""

import contextlib
import json
import random
import time

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from tests.fixtures import programs
from tests.fixtures.faults import checked_learner
from tests.fixtures.faults import environments
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T, B = 5, 4
_QUEUE = 6


def _config(num_actors, num_envs=2):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          total_frames=10**9, log_interval_secs=0.2),
      environment=config_lib.EnvironmentConfig(level=environments.COUNTER),
      agent=config_lib.AgentConfig(torso='mlp', hidden_size=4),
      actor=config_lib.ActorConfig(
          num_actors=num_actors, num_envs=num_envs, max_restarts=10**6,
          restart_window_secs=0.5),  # They come back after a second each time.
      learner=config_lib.LearnerConfig(
          batch_size=B, unroll_length=T, queue_capacity=_QUEUE, num_threads=1))


class _Run(runs.Run):
  """A supervised run with a checked learner."""

  def learned(self):
    """Returns the number of unrolls learned from, and newest step numbers.

    The latter are {(process, environment): number of its newest step}.
    """
    try:
      content = (self.run_dir / checked_learner.FILE_NAME).read_text()
    except FileNotFoundError:
      return 0, {}
    content = json.loads(content)
    return content['unrolls'], {tuple(map(int, key.split('-'))): value for
                                key, value in content['newest'].items()}

  def wait_for_unrolls_of(self, pids):
    """Waits until the learner has learned from each of these actors."""
    self.wait(lambda: set(pids) <= {pid for pid, _ in self.learned()[1]},
              f'unrolls of {pids}')


@contextlib.contextmanager
def _running(run_dir, config, **variables):
  (run_dir / 'config.gin').write_text(gin_config.dumps(config))
  with runs.starting(run_dir, environments.IMPORT, checked_learner.IMPORT,
                     **variables) as run:
    yield _Run(run_dir, run.process)


def test_actors_are_killed_again_and_again(tmp_path, fault):
  rng = random.Random(0)
  config = _config(num_actors=3)
  killed = []
  with _running(tmp_path, config) as run:
    for _ in range(fault.tries):
      actors = run.wait_for_actors(3)
      run.wait_for_unrolls_of(actors)
      time.sleep(rng.uniform(0, 0.1))  # Anywhere within an unroll.
      victims = rng.sample(actors, rng.choice((1, 1, 2, 3)))
      with fault.recovery():
        for victim in victims:
          programs.kill(victim)
        killed += victims
        run.wait_for_unrolls_of(run.wait_for_actors(3, besides=victims))
    num_frames = run.stop()

  num_unrolls, newest = run.learned()
  # The checked learner saw whole unrolls only, each in its turn.
  assert num_frames == num_unrolls * T
  assert run.check_rows(B * T)[-1]['updates'] * B == num_unrolls
  assert 'Assertion' not in run.log()
  played = environments.counts(tmp_path)
  lost = [(steps - newest.get(key, 0)) / T for key, steps in played.items()
          if key[0] in killed]
  # An environment loses at most the unroll that is being played and those on
  # their way to the queue.
  assert lost and 0 <= min(lost) and max(lost) <= 3
  fault.report('kill -9 of one to three of three actors',
               f'{sum(lost) / len(killed):.1f} an actor of 2 environments')


def test_slow_learner_makes_actors_wait(tmp_path, fault):
  config = _config(num_actors=3, num_envs=4)
  with _running(tmp_path, config, FAULTS_SLOW_SECS='0.2') as run:
    run.wait(lambda: len({pid for pid, _ in run.learned()[1]}) == 3,
             'unrolls of three actors')
    for _ in range(fault.tries):
      before = run.learned()[0]
      run.wait(lambda: run.learned()[0] >= before + 5 * B, 'updates')  # noqa: B023

      def look():
        """Returns what was learned and played, read while no update came."""
        learned = run.learned()
        played = environments.counts(tmp_path)
        return learned == run.learned() and (learned[1], played)

      learned, played = run.wait(look, 'both of one moment')
      waiting = sum(steps - learned.get(key, 0)
                    for key, steps in played.items()) / T
      # The queue; batches in flight, ready, being learned from, and learned
      # since the file was written; for each actor what it plays, and half of
      # that on its way.
      assert waiting <= _QUEUE + 4 * B + 3 * (4 + 2)
    run.stop()
  fault.report('a learner that sleeps for 0.2 s in each update')
