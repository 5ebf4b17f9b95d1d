"""Plans of runs on a cluster: what fits, and what is refused."""

import argparse
import re

import pytest

from impala_tf import config as config_lib
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.ray_cluster import plan as cluster_plan
from impala_tf.runs import gin_config
from tests.fixtures import programs

_CONFIG, *_BINDINGS = programs.CATCH
_NO_FLAGS = {'learner_cpus': 1., 'learner_gpus': None, 'actor_cpus': None,
             'num_actors': None, 'evaluate': False, 'run_dir': None}
_TWO = {'LearnerConfig.num_learners': 2}
_TOGETHER = {'ActorConfig.synchronisation': 'trajectory',
             'ActorConfig.num_envs': None}


def _plan(nodes, bindings=None, **flags):
  values = {'ActorConfig.num_actors': None, **(bindings or {})}
  config = gin_config.load(_CONFIG, [
      *(binding.partition('=')[2] for binding in _BINDINGS),
      *(f'{name} = {value!r}' for name, value in values.items())])
  return cluster_plan.Plan(
      argparse.Namespace(**{**_NO_FLAGS, **flags}), config,
      [ray_connection.Resources(*node) for node in nodes])


@pytest.mark.parametrize('nodes, bindings, flags, actors, gpus', [
    ([(4, 0)], {}, {}, 3, 0), ([(0, 0), (4, 0), (4, 0)], {}, {}, 7, 0),
    ([(4, 0), (2, 1)], {}, {}, 5, 1),
    ([(4, 0), (2, 1)], {}, {'learner_gpus': 0}, 5, 0),
    ([(4, 0)], {}, {'actor_cpus': 0.5}, 6, 0),
    ([(4, 0)], {}, {'num_actors': 2}, 2, 0),
    ([(4, 0)], {}, {'learner_cpus': 3}, 1, 0),
    ([(4, 0)], {'ActorConfig.env_processes': 3}, {}, 1, 0),
    ([(4, 0)], {}, {'evaluate': True}, 2, 0),
    # As many for each learner.
    ([(4, 0), (3, 0)], _TWO, {}, 4, 0), ([(4, 0)], _TWO, {}, 2, 0),
    # A divisor of the batch of 8, of which each plays as much.
    ([(4, 0)], _TOGETHER, {}, 2, 0), ([(4, 0), (4, 0)], _TOGETHER, {}, 4, 0),
    ([(4, 0), (4, 2)], _TWO, {}, 6, 1),
    ([(4, 0), (4, 1)], _TWO, {'learner_gpus': 0.5}, 6, 0.5),
    ([(3, 0), (6, 0)], _TWO, {'learner_cpus': 3, 'evaluate': True}, 2, 0)])
def test_plan_fills_the_cluster_by_default(
    nodes, bindings, flags, actors, gpus):
  plan = _plan(nodes, bindings, **flags)
  assert plan.config.actor.num_actors == actors
  assert plan.needs.learner.gpus == gpus
  assert (plan.needs.evaluator is not None) == ('evaluate' in flags)


@pytest.mark.parametrize('nodes, bindings, flags, words', [
    ([(4, 0)], {}, {'learner_gpus': 1}, 'no node has 1 CPU, 1 GPU for the'),
    ([(2, 0), (2, 0)], {}, {'learner_cpus': 4}, 'no node has 4 CPU for the'),
    ([], {}, {}, 'no node has 1 CPU for the learner: the cluster has 0 nodes'),
    ([(2, 0), (1, 0)], {}, {'num_actors': 3},
     'room for 2 actors of 1 CPU each beside the learner, not for 3'),
    ([(1, 0)], {}, {}, 'room for 0 actors of 1 CPU each beside the learner'),
    ([(4, 0)], _TWO, {'num_actors': 1}, '2 learners cannot share 1'),
    ([(4, 0)], {'ActorConfig.synchronisation': 'step',
                'ActorConfig.num_envs': 8}, {}, 'by itself, on one machine')])
def test_impossible_plan_is_refused(nodes, bindings, flags, words):
  with pytest.raises(config_lib.UserError, match=re.escape(words)):
    _plan(nodes, bindings, **flags)


def test_resumed_run_has_as_many_actors_as_before(tmp_path):
  run_dir = str(tmp_path)
  config = _plan([(4, 0)], run_dir=run_dir).config
  (tmp_path / 'config.gin').write_text(gin_config.dumps(config))
  assert _plan([(4, 0), (4, 0)], run_dir=run_dir).config == config
  with pytest.raises(config_lib.UserError, match='for 1 actor .* not for 3'):
    _plan([(2, 0)], run_dir=run_dir)
