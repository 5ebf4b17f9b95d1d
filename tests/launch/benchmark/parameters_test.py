"""The way of parameters from learner to actors, as the benchmark takes it."""

import pytest

from impala_tf import config as config_lib
from impala_tf.processes import sizing
from launch.benchmark import parameters


def _config(num_envs, batch_size):
  return sizing.fit(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level='catch'),
      actor=config_lib.ActorConfig(num_actors=2, num_envs=num_envs),
      agent=config_lib.AgentConfig(torso='mlp'),
      learner=config_lib.LearnerConfig(batch_size=batch_size)))


@pytest.mark.parametrize('num_envs,batch_size,fetches', [
    (8, 8, 6), (12, 8, 4), (8, 32, 24)])
def test_actors_fetch_as_often_as_they_begin_unrolls(
    num_envs, batch_size, fetches, monkeypatch):
  calls = []
  real = parameters.weights.Fetcher.fetch
  monkeypatch.setattr(parameters.weights.Fetcher, 'fetch',
                      lambda self: calls.append(real(self)))
  distribution = parameters.Distribution(_config(num_envs, batch_size))
  calls.clear()
  for _ in range(6):
    distribution.update()
  assert len(calls) == fetches
  assert calls[-1] == 6  # The newest parameters.
  assert distribution.publish_cpu_secs > 0
  assert distribution.fetch_cpu_secs > 0
