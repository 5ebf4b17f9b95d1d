"""Skipped updates are counted, and a run of nothing else is ended."""

import math

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.runs import skipped_updates
from tests.fixtures import unrolls


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
  lines = [record.getMessage() for record in caplog.records]
  assert [line.partition(': ')[2] for line in lines] == [
      '1 in a row, 1 in all (1 of a)', '1 in a row, 4 in all (2 of b, 1 of a)',
      '1 in a row, 7 in all (1 of a, 1 of b)']


def test_run_ends_after_too_many_in_a_row_with_the_last_batch(tmp_path):
  skipped = skipped_updates.SkippedUpdates(str(tmp_path), 2)
  batch = unrolls.numbered(1)
  for norm in (math.nan, 1., math.nan):  # Never two in a row.
    skipped.add(norm)
    skipped.check(batch)
  assert not list(tmp_path.iterdir())
  skipped.add(math.nan)
  with pytest.raises(config_lib.UserError, match='2 updates in a row') as error:
    skipped.check(batch)
  path = tmp_path / skipped_updates.FILE_NAME
  assert str(path) in str(error.value)
  assert '\n' not in str(error.value)
  saved = np.load(path)
  np.testing.assert_array_equal(
      saved['env_outputs.reward'], batch.env_outputs.reward)
