"""Tables of the paper's analysis, with numbers that can be checked by hand."""

import itertools

from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from launch.analysis import tables
from launch.run import gin_config


def _results(returns):
  """Makes results of one task from {(variant, setting, seed): return}."""
  return [results_lib.Result(
      plan_lib.Run('task', variant, setting, seed, {}), results_lib.FINISHED,
      frames=10, secs=1., final_return=value, best_return=value, area=value)
          for (variant, setting, seed), value in returns.items()]


def test_table_2_is_the_mean_of_the_best_three_settings():
  results = _results({
      ('epsilon_replay', f'setting_{i}', seed): value + shift
      for i, value in enumerate((4., -9., 8., 6., 2.))
      for seed, shift in ((1, 0.25), (2, -0.25))})
  lines = tables.table_2(results).splitlines()
  first, second = [i for i, line in enumerate(lines) if 'With replay' in line]
  assert lines[first + 3] == '| ε-correction | 6.00 |'
  assert lines[first - 2] == '| ε-correction | – |'  # Without replay: not run.
  # The paper's own numbers follow.
  assert lines[second + 1] == '| V-trace | 47.1 | 35.8 | 34.5 | 250.8 | 46.9 |'


def test_figure_e2_is_the_mean_over_all_settings():
  results = _results({('none_replay', f'setting_{i}', 1): value
                      for i, value in enumerate((1., 2., 6.))})
  assert '| No-correction | 3.00 |' in tables.figure_e2(results)


def test_replay_tells_mean_and_range_over_seeds():
  results = _results({('replay', 'default', seed): value
                      for seed, value in enumerate((1., 2., 6.))})
  assert ('| task | replay | 3 | 10 | 3.00 | 1.00 to 6.00 | 3.00 |'
          in tables.replay(results))


def test_sweeps_have_every_variant_that_displays_show():
  corrections = gin_config.load_sweep('configs/sweeps/corrections.gin')
  for method, suffix in itertools.product(tables.METHODS, tables.REPLAY):
    bindings = corrections.variants[method + suffix]
    assert bindings['ImpalaConfig.correction'] == method
    assert bindings.get('ReplayConfig.replay_fraction', 0) == (
        0.5 if suffix else 0)
  assert corrections.num_settings >= 8 and len(corrections.tasks) >= 5
  lagging = gin_config.load_sweep('configs/sweeps/figure_e1.gin')
  for method, lag in itertools.product(tables.METHODS, tables.LAGS):
    assert lagging.variants[f'{method}_lag_{lag}'] == {
        'ImpalaConfig.correction': method,
        'ActorConfig.controlled_lag_updates': lag}


def test_best_agent_is_that_of_each_seed():
  results = _results({('shared', f'setting_{i}', seed): value
                      for seed, values in enumerate(((1., 5.), (4., 2.)))
                      for i, value in enumerate(values)})
  assert ('| task | shared | 2 | 2 | 10 | 4.50 | 4.00 to 5.00 | 3.00 |'
          in tables.best_agents(results))
