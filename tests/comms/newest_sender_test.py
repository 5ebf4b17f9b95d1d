"""The newest snapshot is sent, and nobody waits for it."""

import threading

import pytest

from impala_tf.comms import newest_sender
from tests.fixtures import programs


class _Slow:
  """A function that notes what it is given when it is let."""

  def __init__(self):
    self.sent = []
    self.started = threading.Semaphore(0)
    self.may_end = threading.Semaphore(0)
    self.error = None

  def __call__(self, version, snapshot):
    self.started.release()
    assert self.may_end.acquire(timeout=programs.DEADLINE_SECS)
    if self.error:
      raise self.error
    self.sent.append((version, snapshot))


def test_only_the_newest_waits():
  slow = _Slow()
  sender = newest_sender.NewestSender(slow)
  sender.write(1, 10)
  assert slow.started.acquire(timeout=programs.DEADLINE_SECS)
  for version in (2, 3, 4):
    sender.write(version, 10 * version)  # None of these waits.
  slow.may_end.release(2)
  programs.wait_until(lambda: len(slow.sent) == 2, 'two snapshots')
  assert slow.sent == [(1, 10), (4, 40)]


def test_failure_is_raised_at_the_next_call():
  slow = _Slow()
  sender = newest_sender.NewestSender(slow)
  slow.error = OSError('gone')
  slow.may_end.release()
  with pytest.raises(RuntimeError, match='publishing the parameters') as raised:
    # Returns None until it fails.
    programs.wait_until(lambda: sender.write(1, 10), 'an error')
  assert raised.value.__cause__ is slow.error
