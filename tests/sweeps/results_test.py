"""Statistics of results, against examples by hand."""

import pytest

from impala_tf import config as config_lib
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib

_FINISHED, _FAILED = results_lib.FINISHED, results_lib.FAILED


def _run(setting='s', seed=1, task='catch', variant='x', **bindings):
  return plan_lib.Run(task, variant, setting, seed, bindings)


def _results(returns, **kwargs):
  """Makes results from each setting's final returns; None for a failed run."""
  return [
      results_lib.Result(_run(setting, seed, **kwargs),
                         _FAILED if value is None else _FINISHED,
                         final_return=value)
      for setting, values in returns.items()
      for seed, value in enumerate(values, 1)]


def _row(frames, episode_return, **others):
  return {'frames': frames, 'secs': frames / 10,
          'episode_return': episode_return, **others}


def test_result_sums_up_the_rows_of_a_run():
  rows = [{'frames': 0, 'secs': 0.},  # No episode has ended yet.
          _row(20, 1.), _row(40, None), _row(60, 5.), _row(90, 7.),
          _row(95, 10., best_episode_return=11.),
          _row(100, 20., best_episode_return=20., updates=7)]
  result = results_lib.result(_run(), _FINISHED, '', rows)
  assert result.frames == 100 and result.secs == 10. and result.updates == 7
  assert result.final_return == 15.  # Of frames 91 to 100.
  assert result.best_return == 20.
  area = 40 * 3. + 30 * 6. + 5 * 8.5 + 5 * 15.
  assert result.area == pytest.approx(area / 80)


def test_result_without_episodes_or_rows_says_nothing_of_them():
  result = results_lib.result(_run(), _FAILED, 'why', [])
  assert result == results_lib.Result(_run(), _FAILED, 'why')
  rows = [_row(10, 3.), _row(100, None)]
  result = results_lib.result(_run(), _FINISHED, '', rows)
  assert result.final_return is None and result.area == 3.


def test_best_mean_averages_seeds_first():
  results = _results({'a': [0., 9.], 'b': [5., 5.], 'c': [1., 2.],
                      'd': [4., 3.], 'e': [-9., 2.]})
  assert list(results_lib.setting_returns(results).items()) == [
      ('b', 5.), ('a', 4.5), ('d', 3.5), ('c', 1.5), ('e', -3.5)]
  # Runs' best three would be 9, 5 and 5.
  assert results_lib.best_mean(results, 3) == pytest.approx(13 / 3)
  assert results_lib.best_mean(results, 1) == 5.
  assert results_lib.best_mean(results, None) == pytest.approx(11 / 5)


def test_only_finished_runs_count():
  results = _results({'a': [None, 4.], 'b': [None, None], 'c': [1., 2.]})
  assert results_lib.setting_returns(results) == {'a': 4., 'c': 1.5}
  assert results_lib.best_mean(results, None) == 2.75
  assert results_lib.best_mean(_results({'a': [None]}), None) is None


def test_results_are_selected_by_task_and_variant():
  mixed = (_results({'a': [1.]}) + _results({'a': [2.]}, variant='y')
           + _results({'a': [3.]}, task='pong'))
  selected = results_lib.select(mixed, 'catch', 'y')
  assert results_lib.setting_returns(selected) == {'a': 2.}


def test_table_reads_back_equal():
  results = [
      results_lib.Result(
          _run(**{'A.b': 'vtrace', 'A.c': None, 'B.d': 1e-7}), _FINISHED, '',
          100, 1.5, 1 / 3, -2., 0., 20),
      results_lib.Result(_run(variant='y', **{'A.b': True, 'C.e': 5}),
                         _FAILED, 'said, "no" · and more')]
  assert results_lib.from_csv(results_lib.to_csv(results)) == results
  assert results_lib.from_csv(results_lib.to_csv([])) == []
  header, first, _ = results_lib.to_csv(results).splitlines()
  assert header == ('task,variant,setting,seed,status,frames,secs,final_return,'
                    'best_return,area,updates,error,A.b,A.c,B.d,C.e')
  assert first == ("catch,x,s,1,finished,100,1.5,0.3333333333333333,-2.0,0.0,"
                   "20,,'vtrace',None,1e-07,")


def test_table_from_before_updates_were_counted_is_read():
  table = ('task,variant,setting,seed,status,frames,secs,final_return,'
           'best_return,area,error\ncatch,x,s,1,finished,100,1.5,2.0,,,\n')
  assert results_lib.from_csv(table) == [results_lib.Result(
      _run(), _FINISHED, '', 100, 1.5, 2.)]


@pytest.mark.parametrize('text', [
    'task,variant\ncatch,x\n',
    'task,variant,setting,seed,status,error\ncatch,x,s,one,finished,\n',
    'task,variant,setting,seed,status,error,A.b\ncatch,x,s,1,finished,,nope\n'])
def test_other_table_is_refused(text):
  with pytest.raises(config_lib.ConfigError, match='^run 1: '):
    results_lib.from_csv(text)
