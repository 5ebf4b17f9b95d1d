"""Scores from Python are those of the command."""

import json

import pytest

import impala_tf
from impala_tf.cli import evaluate
from impala_tf.envs import multi_level
from impala_tf.roles import scores as scores_lib
from tests.fixtures import trained_runs


@pytest.fixture(name='run_dir', scope='module')
def _run_dir(tmp_path_factory):
  return str(trained_runs.make(tmp_path_factory.mktemp('run'), 'catch'))


def test_scores_are_those_of_the_command(run_dir, tmp_path, call):
  output = tmp_path / 'scores.json'
  assert call(evaluate.main, run_dir, '--episodes=20', '--seed=3',
              f'--output={output}') == 0
  expected = json.loads(output.read_text())
  scores = impala_tf.evaluate(run_dir, 20, seed=3)
  assert list(scores) == ['catch']
  score = scores['catch']
  assert score.returns == expected['returns'] and len(score.returns) == 20
  assert score.mean == expected['mean']
  assert score.standard_error == expected['standard_error']
  assert score.human_normalised_score is None
  assert impala_tf.evaluate(run_dir, 20, seed=4)['catch'] != score
  both = impala_tf.evaluate(run_dir, 1, levels='catch,catch/mirrored')
  assert list(both) == ['catch', 'catch/mirrored']


def test_other_seed_has_other_environments(run_dir, monkeypatch):
  seeds = set()

  def make(config, num_envs, seed, training):
    seeds.update(range(seed, seed + num_envs))
    raise KeyboardInterrupt

  monkeypatch.setattr(multi_level, 'make_environment', make)
  for seed in 0, 1, 2**30 - 1:
    with pytest.raises(KeyboardInterrupt):
      impala_tf.evaluate(run_dir, 32, seed=seed)
  assert len(seeds) == 3 * 32 and min(seeds) == 0


@pytest.mark.parametrize('options, words', [
    ({'episodes': 0}, 'episodes must be at least 1'),
    ({'seed': -1}, 'seed must be 0 to'),
    ({'levels': ['ctach']}, "did you mean 'catch'"),
    ({'levels': ['catch/delayed']}, r'observations .* was trained with obs')])
def test_bad_value_is_refused(run_dir, options, words):
  with pytest.raises(impala_tf.UserError, match=words):
    impala_tf.evaluate(run_dir, **options)


@pytest.mark.parametrize('level, num_levels', [
    ('atari57', 57), ('dmlab30', 30),
    # One is scored where the other is trained.
    ('dmlab30/rooms_collect_good_objects_train,dmlab30/rooms_watermaze,'
     'dmlab30/rooms_collect_good_objects_test', 2)])
def test_levels_of_a_run_are_those_that_are_scored(level, num_levels):
  suite, played = scores_lib.scored_levels(level)
  assert set(played) <= set(suite.levels) and len(played) == num_levels
