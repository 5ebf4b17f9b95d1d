"""Refused unrolls are counted, seldom warned of, and can end a run."""

from absl import logging
import pytest

from impala_tf import config as config_lib
from impala_tf.comms import unroll_filter


class _Clock:
  secs = 1000.

  def __call__(self):
    return self.secs


def test_senders_are_named_at_once_and_then_once_a_minute(monkeypatch):
  warnings = []
  monkeypatch.setattr(logging, 'warning',
                      lambda text, *args: warnings.append(text % args))
  clock = _Clock()
  refusals = unroll_filter.Refusals(clock)
  refusals.add(7, unroll_filter.NOT_FINITE)
  assert 'from actor 7' in warnings[0] and 'not finite' in warnings[0]
  for _ in range(59):
    clock.secs += 1
    refusals.add(8, unroll_filter.OTHER_CONFIG)
    refusals.add(9, unroll_filter.NOT_FINITE)
  assert len(warnings) == 1
  clock.secs += 1
  refusals.add(9, unroll_filter.NOT_FINITE)
  assert len(warnings) == 2
  assert '60 (numbers that are not finite, from actor 9)' in warnings[1]
  assert '59 (played with another config, from actor 8)' in warnings[1]
  assert 'actor 7' not in warnings[1]  # It was in the first.
  assert refusals.total == 120


def test_nothing_but_refusals_for_long_is_an_error():
  clock = _Clock()
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
