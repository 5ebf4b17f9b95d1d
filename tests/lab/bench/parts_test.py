"""Parts of an agent step."""

import pytest

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
    assert part() == 3
