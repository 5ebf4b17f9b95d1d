"""Tests of the analysis, as a user runs it on real sweeps that are kept."""

import pytest

from lab.figures import __main__ as analysis
from tests.fixtures import programs
from tests.fixtures import sweep_results


@pytest.mark.parametrize('display, sweep, words', [
    ('table_2', 'corrections', 'cartpole_swingup'),
    ('figure_e1', 'figure_e1', '*Lag of 500: minus V-trace*'),
    ('lags', 'figure_e1', '*Lag of 500: minus V-trace*'),
    ('figure_e2', 'corrections', 'cartpole_swingup'),
    ('figure_e3', 'corrections', 'cartpole_swingup'),
    ('ranks', 'figure_4_settings.csv', 'impala'),
    ('rates', 'figure_4_settings.csv', 'impala'),
    ('variants', 'bias_correction.csv', '*minus starts_at_one*'),
    ('variants', 'large_values.csv', '*minus not_clipped*'),
    ('figure_4', 'figure_4_seeds', 'kung_fu_master'),
    ('speedup', 'a3c_speedup', '1-step Q'),
    ('curves', 'replay_capacity', '10000'),
    ('curves', 'replay_pong', 'equal_updates'),
    ('curves', 'pong_one_change', 'epsilon_0.01')])
@pytest.mark.nightly
def test_display_is_redrawn_from_what_is_kept(tmp_path, display, sweep, words):
  ran = programs.run('lab.figures', display, f'testdata/sweeps/{sweep}',
                     f'--output={tmp_path}/x.png', check=True)
  assert f' {words} |' in ran.stdout and '| – |' not in ran.stdout
  assert (tmp_path / 'x.png').stat().st_size > 20_000


def test_table_of_agents_that_share_needs_results_alone(refused, tmp_path):
  csv = 'testdata/sweeps/laser_sharing.csv'
  ran = programs.run('lab.figures', 'best_agents', csv,
                     f'--output={tmp_path}/agents', check=True)
  assert '| lava_gap | shared | own | ' in ran.stdout
  assert [path.name for path in tmp_path.iterdir()] == ['agents.md']
  assert 'needs learning curves' in refused(
      analysis.main, 'best_agents', csv, f'--output={tmp_path}/agents.png')


@pytest.mark.parametrize('arguments, words', [
    (['table_2'], 'no variant of this sweep is a correction'),
    (['lags'], 'no variant of this sweep has a controlled lag'),
    (['rates'], 'have no OptimizerConfig.learning_rate'),
    (['variants', '--goals=0.4'], '--goals needs learning curves'),
    (['variants', '--goals=many'], "'many' is no list of numbers")])
def test_what_cannot_be_drawn_is_refused(refused, tmp_path, arguments, words):
  assert words in refused(
      analysis.main, *arguments, 'testdata/sweeps/a3c_speedup/results.csv',
      f'--output={tmp_path}/x.png')
  assert not list(tmp_path.iterdir())


def test_directory_without_a_sweep_is_refused_in_a_line(tmp_path):
  line = programs.error_line(programs.run('lab.figures', 'table_2', tmp_path))
  assert f'is {tmp_path} the directory of a sweep?' in line


def test_goals_are_reached_by_each_run_in_the_order_of_the_runs(tmp_path):
  results = []
  for variant, seed, curve in (
      ('a', 1, [(1_000_000, 1.), (2_000_000, 2.)]), ('b', 1, [(500_000, 3.)]),
      ('a', 2, [(1_500_000, None), (2_500_000, 1.)])):
    results.append(sweep_results.result(variant, None, seed=seed))
    sweep_results.write_rows(tmp_path, results[-1].run, [
        *({'frames': x, 'episode_return': y, 'episodes': 100}
          for x, y in curve),
        {'frames': 3_000_000, 'episode_return': 9., 'episodes': 99}])
  table = analysis.goals_table(str(tmp_path), results, [1., 2.5])
  assert table.splitlines()[2:] == [
      '| task | variant | 1 | 2.5 |', '| --- | --- | --- | --- |',
      '| catch | a | 1.00, 2.50 | never, never |',
      '| catch | b | 0.50 | 0.50 |']
