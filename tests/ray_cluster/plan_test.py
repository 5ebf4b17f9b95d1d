"""Plans of runs on a cluster: what fits, and what is refused."""

import re
import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import cluster
from impala_tf.cli import program
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import plan as cluster_plan
from impala_tf.runs import gin_config
from tests.fixtures import programs
from tests.fixtures.faults import runs

_CONFIG, *_BINDINGS = programs.CATCH
_FLAGS = (f'--config={_CONFIG}', *_BINDINGS,
          '--gin_binding=ActorConfig.num_actors = None')
_TWO = runs.bind('LearnerConfig.num_learners', 2)
_TOGETHER = (runs.bind('ActorConfig.synchronisation', 'trajectory'),
             runs.bind('ActorConfig.num_envs', None))


def _plan(monkeypatch, nodes, *flags):
  monkeypatch.setattr(sys, 'argv', ['cluster', *_FLAGS, *flags])
  args = cluster._parse_args()
  cluster._check_flags(args)
  config = program.load_for_roles(args.config, args)
  return cluster_plan.Plan(args, config, [
      ray_connection.Resources(*node) for node in nodes])


@pytest.mark.parametrize('nodes, flags, actors, gpus', [
    ([(4, 0)], [], 3, 0), ([(0, 0), (4, 0), (4, 0)], [], 7, 0),
    ([(4, 0), (2, 1)], [], 5, 1),
    ([(4, 0), (2, 1)], ['--learner_gpus=0'], 5, 0),
    ([(4, 0)], ['--actor_cpus=0.5'], 6, 0),
    ([(4, 0)], ['--num_actors=2'], 2, 0),
    ([(4, 0)], ['--learner_cpus=3'], 1, 0),
    ([(4, 0)], [runs.bind('ActorConfig.env_processes', 3)], 1, 0),
    ([(4, 0)], ['--evaluate'], 2, 0),
    # As many for each learner.
    ([(4, 0), (3, 0)], [_TWO], 4, 0), ([(4, 0)], [_TWO], 2, 0),
    # A divisor of the batch of 8, of which each plays as much.
    ([(4, 0)], _TOGETHER, 2, 0), ([(4, 0), (4, 0)], _TOGETHER, 4, 0),
    ([(4, 0), (4, 2)], [_TWO], 6, 1),
    ([(4, 0), (4, 1)], [_TWO, '--learner_gpus=0.5'], 6, 0.5),
    ([(3, 0), (6, 0)], [_TWO, '--learner_cpus=3', '--evaluate'], 2, 0)])
def test_plan_fills_the_cluster_unless_told_otherwise(
    monkeypatch, nodes, flags, actors, gpus):
  plan = _plan(monkeypatch, nodes, *flags)
  assert plan.config.actor.num_actors == actors
  assert plan.needs.learner.gpus == gpus
  assert (plan.needs.evaluator is not None) == ('--evaluate' in flags)


@pytest.mark.parametrize('nodes, flags, words', [
    ([(4, 0)], ['--learner_gpus=1'], 'no node has 1 CPU, 1 GPU for the'),
    ([(2, 0), (2, 0)], ['--learner_cpus=4'], 'no node has 4 CPU for the'),
    ([], [], 'no node has 1 CPU for the learner: the cluster has 0 nodes'),
    ([(2, 0), (1, 0)], ['--num_actors=3'],
     'room for 2 actors of 1 CPU each beside the learner, not for 3'),
    ([(1, 0)], [], 'room for 0 actors of 1 CPU each beside the learner, not')])
def test_plan_without_room_is_refused(monkeypatch, nodes, flags, words):
  with pytest.raises(config_lib.UserError, match=re.escape(words)) as error:
    _plan(monkeypatch, nodes, *flags)
  assert '--' in str(error.value)  # The remedy.


def test_learners_without_an_actor_each_are_refused(monkeypatch):
  with pytest.raises(config_lib.ConfigError, match='2 learners cannot share 1'):
    _plan(monkeypatch, [(4, 0)], _TWO, '--num_actors=1')


def test_resumed_run_has_as_many_actors_as_before(monkeypatch, tmp_path):
  flag = f'--run_dir={tmp_path}'
  config = _plan(monkeypatch, [(4, 0)], flag).config
  (tmp_path / 'config.gin').write_text(gin_config.dumps(config))
  assert _plan(monkeypatch, [(4, 0), (4, 0)], flag).config == config
  with pytest.raises(config_lib.UserError, match='for 1 actor .* not for 3'):
    _plan(monkeypatch, [(2, 0)], flag)


def test_learner_that_plays_by_itself_needs_no_cluster(monkeypatch):
  with pytest.raises(config_lib.UserError, match='on one machine; use .*train'):
    _plan(monkeypatch, [(4, 0)],
          runs.bind('ActorConfig.synchronisation', 'step'),
          runs.bind('ActorConfig.num_envs', 8))
