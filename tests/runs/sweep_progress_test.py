"""Lines that programs print of many runs."""

from impala_tf.runs import sweep_progress
from impala_tf.runtime import batch
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib


def test_line_of_a_run_tells_how_it_ended_and_when_all_will(capsys):
  progress = sweep_progress.Progress(1, 3)
  run = plan_lib.Run('catch', 'x', 'setting_01', 1, {})
  progress.show(results_lib.Result(
      run, results_lib.FAILED, 'it broke', secs=7., final_return=0.5))
  line = capsys.readouterr().out
  assert line.startswith('[2/3] catch/x/setting_01/seed_1 failed · it broke · '
                         'return 0.50 · 7 s · ETA 0:00:00')


def test_columns_are_aligned():
  assert sweep_progress.table([['a', 'bb', 'n'], ['ccc', 'd', '10']]) == (
      'a    bb   n\nccc  d   10')


def test_status_follows_from_the_end():
  assert [sweep_progress.status(ended) for ended in (
      batch.Ended(0, False, ''), batch.Ended(143, True, ''),
      batch.Ended(1, False, 'x'))] == [
          results_lib.FINISHED, results_lib.INTERRUPTED, results_lib.FAILED]
