"""Tests of signals to stop, which are noted within the context only."""

import os
import signal
import threading

import pytest

from impala_tf.runtime import stop_signals


def test_first_signal_counts_and_the_second_is_a_repetition():
  with stop_signals.StopSignals() as signals:
    assert signals.first is None and not signals.are_repeated
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.first == signal.SIGTERM and not signals.are_repeated
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.first == signal.SIGTERM and signals.are_repeated


def test_handlers_are_put_back_after_an_error():
  before = [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
  with pytest.raises(ValueError):
    with stop_signals.StopSignals():
      assert before != [
          signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
      raise ValueError
  assert before == [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]


def test_second_signal_may_be_handled_as_before():
  # Processes of pytest-xdist have another one.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with stop_signals.StopSignals(note_first_only=True) as signals:
      signal.raise_signal(signal.SIGINT)
      assert signals.first == signal.SIGINT
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
