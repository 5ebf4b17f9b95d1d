"""Tests of signals to stop, which are noted within the context only."""

import os
import signal
import threading

import pytest

from impala_tf.runtime import stop_signals


@pytest.fixture(name='clock')
def _clock(monkeypatch):
  """Returns a list with the seconds that the monotonic clock shows."""
  clock = [100.]
  monkeypatch.setattr(stop_signals.time, 'monotonic', lambda: clock[0])
  return clock


@pytest.mark.parametrize('first', stop_signals.STOP_SIGNALS)
def test_signal_counts_and_one_more_after_a_second_is_a_repetition(
    clock, first):
  with stop_signals.StopSignals() as signals:
    assert signals.first is None and not signals.are_repeated
    os.kill(os.getpid(), first)
    assert signals.first == first and not signals.are_repeated
    for secs in 0., 0.005, 0.9:  # As `timeout`, Slurm and systemd send it.
      clock[0] = 100. + secs
      for again in stop_signals.STOP_SIGNALS:
        os.kill(os.getpid(), again)
        assert signals.first == first and not signals.are_repeated
    clock[0] = 101.1
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.first == first and signals.are_repeated


def test_hang_up_stays_ignored_under_nohup():
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  try:
    with stop_signals.StopSignals() as signals:
      signal.raise_signal(signal.SIGHUP)
      assert signals.first is None
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
  finally:
    signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back_after_an_error():
  before = [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
  with pytest.raises(ValueError):
    with stop_signals.StopSignals():
      assert before != [
          signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
      raise ValueError
  assert before == [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]


def test_repeated_signal_may_be_handled_as_before(clock):
  # Processes of pytest-xdist have another one.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with stop_signals.StopSignals(note_first_only=True) as signals:
      signal.raise_signal(signal.SIGINT)
      signal.raise_signal(signal.SIGINT)  # The same request.
      assert signals.first == signal.SIGINT
      clock[0] += 2.
      with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
  finally:
    signal.signal(signal.SIGINT, before)


def test_other_thread_than_the_main_one_notes_none():
  noted = []

  def enter():
    with stop_signals.StopSignals() as signals:
      noted.append(signals.first)

  handler = signal.getsignal(signal.SIGINT)
  thread = threading.Thread(target=enter)
  thread.start()
  thread.join()
  assert noted == [None] and signal.getsignal(signal.SIGINT) is handler
