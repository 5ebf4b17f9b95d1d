"""Parts of an agent step, and what they say of themselves."""

import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from lab.bench import parts
from tests.fixtures import locks


@pytest.mark.usefixtures('modules_forgotten')
@pytest.mark.parametrize('level', [
    'catch', 'gym/InvertedPendulum-v5', locks.LEVEL])
def test_environments_are_stepped_whatever_their_actions(level):
  user_modules.load([locks.MODULE])
  config = sizing.fit(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level),
      actor=config_lib.ActorConfig(num_envs=3)), cores=1)
  part = parts.PARTS['environment'](config)
  # Longer than an episode. Locks fail where an action is illegal.
  for _ in range(2 * locks.NUM_STEPS):
    assert part.run() == 3


def _refuse(**_):
  raise TypeError('f must be something else')


@pytest.mark.parametrize('call,words', [
    (tf.raw_ops.StatefulPartitionedCall, 'by a flat call'),
    (_refuse, 'by an ordinary call')])
def test_inference_tells_how_it_calls_the_graph(monkeypatch, call, words):
  monkeypatch.setattr(tf.raw_ops, 'StatefulPartitionedCall', call)
  part = parts.PARTS['inference'](sizing.fit(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(torso='mlp'),
      learner=config_lib.LearnerConfig(unroll_length=2)), cores=1))
  part.run()
  assert words in part.facts()['acting']
