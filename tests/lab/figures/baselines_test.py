"""Displays of the baselines, with numbers that can be checked by hand."""

import dataclasses

import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.optimizers import rmsprop as rmsprop_lib
from impala_tf.runs import gin_config
from impala_tf.sweeps import plan as plan_lib
from lab.figures import baselines
from tests.fixtures import sweep_results


def _result(variant, final_return, rate=None, secs=2., **where):
  return sweep_results.result(
      variant, final_return, bindings={'OptimizerConfig.learning_rate': rate},
      frames=100, secs=secs, area=final_return, updates=700, **where)


def _write_curve(sweep_dir, result, points):
  """Writes points (frames, seconds, return), each of a full window."""
  sweep_results.write_rows(sweep_dir, result.run, [
      {'frames': x, 'secs': secs, 'episode_return': y, 'episodes': 100 + x,
       'policy_lag': 3 * x} for x, secs, y in points])


def _lines(axes):
  return {line.get_label(): [axis.tolist() for axis in line.get_data()]
          for line in axes.lines}


# Settings.


def test_settings_are_ranked_for_each_variant():
  results = [
      _result(variant, value + shift, 10.**-i, seed=seed,
              setting=f'setting_{i}')
      for variant, values in (('a3c', (1., 7., 4., 0.)),
                              ('impala', (5., 6., 2., 3.)))
      for i, value in enumerate(values)
      for seed, shift in ((1, 0.5), (2, -0.5))]
  table = baselines.ranks_table(results)
  assert '| catch | a3c | 4 | 7.00 | 2.50 | 3.00 |' in table
  assert '| catch | impala | 4 | 6.00 | 4.00 | 4.00 |' in table
  axes, = baselines.ranks(results).axes
  assert _lines(axes) == {'A3C': [[1, 2, 3, 4], [7., 4., 1., 0.]],
                          'IMPALA': [[1, 2, 3, 4], [6., 5., 3., 2.]]}


# Curves.


def test_best_settings_are_compared_over_frames_and_over_time(tmp_path):
  results = [_result('default', value, seed=seed, task=f'catch.{variant}',
                     secs=secs)
             for variant, values, secs in (('a3c', (1., 3.), 10.),
                                           ('impala', (5., 5.), 4.))
             for seed, value in enumerate(values)]
  for result in results:
    last = result.final_return
    _write_curve(tmp_path, result, [(0, 1., 0.), (100, 1. + result.secs, last)])
  table = baselines.figure_4_table(str(tmp_path), results)
  assert ('| catch | a3c | 2 | 700 | 150.0 | 2.00 (1.00 to 3.00) | 2.00 | 10 '
          '| 10 |') in table
  assert ('| catch | impala | 2 | 700 | 150.0 | 5.00 (5.00 to 5.00) | 5.00 | 4 '
          '| 25 |') in table
  # In pairs of a seed: 5 - 1 and 5 - 3.
  assert 'Mean difference of final returns over seeds, in pairs,' in table
  assert table.count('| *minus a3c* |  |\n'
                     '| impala | 3.00 (-9.71 to 15.71) |') == 2
  over_frames, over_time = baselines.figure_4(str(tmp_path), results).axes
  for axes, ends in ((over_frames, {'A3C': (0., 100.), 'IMPALA': (0., 100.)}),
                     (over_time, {'A3C': (0., 10.), 'IMPALA': (0., 4.)})):
    for variant, (x, y) in _lines(axes).items():
      assert (x[0], x[-1]) == ends[variant]
      assert (y[0], y[-1]) == (0., {'A3C': 2., 'IMPALA': 5.}[variant])


# Speed-ups.


def test_speedup_is_the_ratio_of_times_to_the_score(tmp_path):
  # After 10, 20 and 30 s with one worker; with two after 4 and 8 s, and never.
  results = []
  for variant, times in (('a3c_1', (10., 20., 30.)), ('a3c_2', (4., 8., None)),
                         ('n_step_q_1', (10., None, None)),
                         ('n_step_q_2', (5., 5., 5.))):
    for seed, secs in enumerate(times):
      results.append(_result(variant, 1., seed=seed))
      _write_curve(tmp_path, results[-1], [
          (0, 7., -1.), (1, 8., 0.39)] + (
              [(50, 7 + secs, 0.4), (60, 8 + secs, 0.2)] if secs else []))
  table = baselines.speedup_table(str(tmp_path), results)
  assert 'a mean return of 0.4 on catch' in table
  assert '| catch | A3C | 1.0 (20 s) | 2.5 (8 s) | 1.0 | 2.1 |' in table
  # One worker alone does not get there in most runs.
  assert '| catch | n-step Q | – (1 of 3) | – (3 of 3) | 1.0 | 2.7 |' in table
  axes, = baselines.speedup(str(tmp_path), results).axes
  assert _lines(axes) == {'A3C': [[1., 2.], [20., 8.]],
                          'n-step Q': [[2.], [5.]]}


def test_first_games_are_no_mean_that_reaches_the_score(tmp_path):
  result = _result('a3c_1', 1.)
  _write_curve(tmp_path, result, [(-99, 5., 1.), (-1, 6., 1.), (0, 9., 0.5)])
  assert '| 1.0 (4 s) |' in baselines.speedup_table(str(tmp_path), [result])


@pytest.mark.parametrize('variant, task, words', [
    ('a3c', 'catch', 'a3c is no method with a number of workers'),
    ('dqn_2', 'catch', 'dqn_2 is no method'),
    ('a3c_2', 'tmaze', 'tmaze has no score that is to be reached')])
def test_other_runs_have_no_speedup(variant, task, words):
  with pytest.raises(config_lib.UserError, match=words):
    baselines.speedup_table('', [_result(variant, 1., task=task)])


def test_variants_of_figure_4_differ_in_their_architecture_alone():
  sweep = gin_config.load_sweep('configs/sweeps/figure_4.gin')
  variable = tf.Variable([0.])
  rmsprop = rmsprop_lib.RMSProp(lambda: 0.1, 0.9, lambda: 0.1)
  rmsprop.build([variable])
  start = rmsprop.mean_squares[0].numpy()[0]
  first = next(iter(plan_lib.settings(sweep)))
  for run in (r for r in plan_lib.runs(sweep) if r.setting == first):
    path = sweep.tasks[run.task]
    config = gin_config.load(path, run.gin_bindings())
    impala = gin_config.load(path, run._replace(bindings={
        name: value for name, value in run.bindings.items()
        if name not in sweep.variants[run.variant]}).gin_bindings())
    for section in 'agent', 'optimizer', 'environment', 'learner':
      assert getattr(config, section) == getattr(impala, section)
    assert dataclasses.replace(config.impala, correction='none') == (
        dataclasses.replace(impala.impala, correction='none'))
    if run.variant == 'a3c':
      assert config.asynchronous.initial_mean_square == start
      assert config.asynchronous.optimizer == 'shared_rmsprop'
      assert config.asynchronous.max_segment_steps == (
          impala.learner.unroll_length)
