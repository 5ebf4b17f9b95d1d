"""Scores are written in the forms of rliable and marl-eval."""

import json

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.plots import exchange
from impala_tf.runs import gin_config
from tests.fixtures import sweep_results


@pytest.fixture(name='make')
def _make(tmp_path):
  """Writes a run of a level with two rows, and an evaluation if given."""
  def make(name, level, seed, returns, mean=None, rate=1e-3, **others):
    run_dir = sweep_results.write_metrics(tmp_path / name, [
        {'frames': 100 * i, 'updates': i, 'secs': 1. * i,
         'episode_return': value} for i, value in enumerate(returns, start=1)])
    config = config_lib.Config(
        environment=config_lib.EnvironmentConfig(level=level),
        experiment=config_lib.ExperimentConfig(seed=seed),
        optimizer=config_lib.OptimizerConfig(learning_rate=rate))
    (run_dir / 'config.gin').write_text(gin_config.dumps(config))
    if mean is not None:
      (run_dir / 'evaluation.json').write_text(json.dumps({'levels': {
          played: {'level': played, 'trained_frames': 200, 'episodes': 9,
                   'seed': 0, 'deterministic': False, 'mean': score}
          for played, score in {level: mean, **others}.items()}}))
    return str(run_dir)
  return make


def test_rliable_gets_a_row_a_seed_and_a_column_a_level(
    make, tmp_path, capsys):
  runs = [make('a', 'catch', 1, [0., 0.5]),
          make('b', 'atari/pong', 1, [-20.7, 14.6]),  # Human-normalised: 1.
          make('c', 'catch', 2, [0., 0.25]),
          make('d', 'atari/pong', 2, [-20.7, 14.6], mean=-20.7,  # Evaluated.
               **{'atari/breakout': 100.}),
          make('e', 'catch', 1, [0., 1.], rate=1e-4),
          make('f', 'atari/pong', 1, [-20.7], rate=1e-4)]
  matrices = exchange.rliable(runs)
  assert list(matrices) == ['learning_rate = 0.001', 'learning_rate = 0.0001']
  np.testing.assert_allclose(matrices['learning_rate = 0.001'],
                             [[1., 0.5], [0., 0.25]], atol=1e-12)
  assert matrices['learning_rate = 0.0001'] == [[0., 1.]]
  path = tmp_path / 'd' / 'evaluation.json'
  path.write_text(path.read_text().replace('false', 'true'))
  assert exchange.rliable(runs)['learning_rate = 0.001'][1] == [1., 0.25]
  assert f'note: {runs[0]} has learned from 200 of' in capsys.readouterr().out


def test_names_of_algorithms_hold_no_comma(make, tmp_path):
  runs = [make('a', 'catch', 1, [0., 0.5]),
          make('b', 'catch', 1, [0., 1.], rate=1e-4)]
  path = tmp_path / 'b' / 'config.gin'
  path.write_text(path.read_text().replace('momentum = 0.0', 'momentum = 0.5'))
  assert list(exchange.rliable(runs))[1] == (
      'learning_rate = 0.0001; momentum = 0.5')


def test_marl_eval_gets_curves_at_common_frames_and_an_absolute_metric(make):
  contents = exchange.marl_eval([
      make('a', 'atari/pong', 3, [0., 0.5], mean=0.75),
      make('b', 'atari/pong', 4, [1., 2., 3.])])
  third, fourth = contents['atari']['pong']['impala'].values()
  assert third['step_0'] == {'step_count': 100, 'return': [0.]}
  assert fourth['step_99'] == {'step_count': 200, 'return': [2.]}
  assert third.keys() == fourth.keys() and len(third) == 101
  assert third['absolute_metrics'] == {'return': [0.75]}
  with pytest.raises(config_lib.UserError, match='catch have no frames with r'):
    exchange.marl_eval([make('c', 'catch', 1, [], mean=1.)])


def test_runs_that_fill_no_matrix_are_refused(make):
  first, other = make('a', 'catch', 1, [0.]), make('b', 'catch', 1, [0.])
  cases = [([first, other], 'seed 1 and the same config'),
           ([first, make('c', 'catch', 2, [0.]),
             make('d', 'atari/pong', 1, [0.])], '1 on atari/pong, 2 on catch'),
           ([first, make('g', 'tmaze', 1, [0.], rate=1e-4)], 'the same levels'),
           ([make('e', 'catch,tmaze', 1, [0.])], 'one level each'),
           ([make('f', 'catch', 1, [None])], 'let it train')]
  for run_dirs, words in cases:
    forms = exchange.FORMATS.values()
    for form in forms if len(run_dirs) == 1 else [exchange.rliable]:
      with pytest.raises(config_lib.UserError, match=words):
        form(run_dirs)
