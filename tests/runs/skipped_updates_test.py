"""Skipped updates are counted, and a run of nothing else is ended."""

import math

from impala_tf.runs import skipped_updates


def test_only_gradients_that_are_not_finite_are_skipped(tmp_path):
  skipped = skipped_updates.SkippedUpdates(str(tmp_path), 2)
  norms = (1., math.nan, 1e30, math.inf, -math.inf, 0.)
  assert [skipped.add(norm) for norm in norms] == [
      False, True, False, True, True, False]
  assert skipped.total == 3


def test_warnings_come_once_a_minute_and_name_the_workers(tmp_path, caplog):
  secs = iter([0., 1., 59., 60., 61., 119., 120.])
  skipped = skipped_updates.SkippedUpdates(
      str(tmp_path), 100, clock=lambda: next(secs))
  for worker in 'abbaab':
    skipped.add(math.nan, worker)
    skipped.add(1., 'c')
  skipped.add(math.nan)
  assert [line.partition(': ')[2] for line in caplog.messages] == [
      '1 in a row, 1 in all (1 of a)', '1 in a row, 4 in all (2 of b, 1 of a)',
      '1 in a row, 7 in all (1 of a, 1 of b)']
