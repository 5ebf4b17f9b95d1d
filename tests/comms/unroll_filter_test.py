"""Refused unrolls are counted, seldom warned of, and can end a run."""

import pytest

from impala_tf import config as config_lib
from impala_tf.comms import unroll_filter
from tests.fixtures import clocks


def test_senders_are_named_at_once_and_then_once_a_minute(caplog):
  clock = clocks.Clock()
  refusals = unroll_filter.Refusals(clock)
  refusals.add(7, unroll_filter.NOT_FINITE)
  warning, = caplog.messages
  assert 'from actor 7' in warning and 'not finite' in warning
  for _ in range(59):
    clock.secs += 1
    refusals.add(8, unroll_filter.OTHER_CONFIG)
    refusals.add(9, unroll_filter.NOT_FINITE)
  assert len(caplog.messages) == 1
  clock.secs += 1
  refusals.add(9, unroll_filter.NOT_FINITE)
  _, warning = caplog.messages
  assert '60 (numbers that are not finite, from actor 9)' in warning
  assert '59 (played with another config, from actor 8)' in warning
  assert 'actor 7' not in warning  # It was in the first.
  assert refusals.total == 120


def test_nothing_but_refusals_for_long_is_an_error():
  clock = clocks.Clock()
  refusals = unroll_filter.Refusals(clock)

  def refuse(number):
    for _ in range(number):
      refusals.add(3, unroll_filter.NOT_FINITE)

  for _ in range(2):
    refuse(999)
    clock.secs += 100
    refusals.check()
    refusals.batch_came()
  refuse(1000)
  clock.secs += 29
  refusals.check()
  clock.secs += 1
  with pytest.raises(
      config_lib.UserError,
      match='1000 unrolls in a row were refused, for 30 s: .*from actor 3'):
    refusals.check()
