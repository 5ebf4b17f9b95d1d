"""Refusals and messages of the learner as a program."""

import pytest

from impala_tf import config as config_lib
from impala_tf.cli.roles import flags
from impala_tf.cli.roles import servers
from impala_tf.runs import gin_config

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
    servers.learner_config(_args(path, _OPEN))
  assert servers.learner_config(_args(path, _TWO)).actor.num_actors == 2


@pytest.mark.parametrize('path, awaited, first', [
    ('configs/a3c/catch.gin', 'segments of workers, whose actors find this '
     'learner at localhost:1', 'segments'),
    ('configs/catch.gin', 'unrolls that actors send to localhost:1',
     'unrolls')])
def test_learner_says_what_it_waits_for(path, awaited, first, capsys):
  control = servers.Process(_args(path), [], gin_config.load(path)).control()
  control.on_wait('')
  for _ in range(2):
    control.before_batch()
  assert capsys.readouterr().out.splitlines() == [
      f'learner: waiting for {awaited} (0 of 600 s)',
      f'learner: got the first {first} after 0 s']
