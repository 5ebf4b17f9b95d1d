"""The learner as a program: what it refuses to learn."""

import pytest

from impala_tf import config as config_lib
from launch.roles import flags
from launch.roles import learner

_OPEN = '--gin_binding=ActorConfig.num_actors = None'
_TWO = '--gin_binding=ActorConfig.num_actors = 2'


def _args(path, *bindings):
  return flags.make_parser('').parse_args(
      ['learner', '--address=localhost:1', f'--config={path}', *bindings])


@pytest.mark.parametrize('path, words', [
    ('configs/a3c/catch.gin', "ExperimentConfig.algorithm = 'a3c'"),
    ('configs/a2c/sync_trajectory.gin',
     "ActorConfig.synchronisation = 'trajectory'")])
def test_actors_that_would_count_themselves_by_their_cores_are_refused(
    path, words):
  with pytest.raises(config_lib.UserError, match=(
      f'^{words} needs ActorConfig.num_actors where actors are started one')):
    learner._learner_config(_args(path, _OPEN))
  assert learner._learner_config(_args(path, _TWO)).actor.num_actors == 2
