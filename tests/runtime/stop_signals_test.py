"""Tests of signals to stop, which count within the context only."""

import signal
import time

import pytest

from impala_tf.runtime import stop_signals
from tests.fixtures import programs


@pytest.mark.parametrize('first', stop_signals.STOP_SIGNALS)
def test_signal_counts_and_one_more_after_a_second_is_a_repetition(first):
  now = [100.]
  with stop_signals.StopSignals(clock=lambda: now[0]) as signals:
    assert signals.first is None
    signal.raise_signal(first)
    for now[0] in 100., 100.9:  # As `timeout`, Slurm and systemd send it.
      for again in stop_signals.STOP_SIGNALS:
        signal.raise_signal(again)
      assert signals.first == first and not signals.are_repeated
    now[0] = 101.1
    signal.raise_signal(signal.SIGINT)
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


@pytest.mark.parametrize('context', [
    stop_signals.StopSignals, stop_signals.interrupting])
def test_handlers_are_put_back_even_after_an_error(context):
  before = [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
  with pytest.raises(ValueError):
    with context():
      assert before != [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]
      raise ValueError
  assert before == [signal.getsignal(s) for s in stop_signals.STOP_SIGNALS]


def test_repeated_signal_may_be_handled_as_before():
  now = [100.]
  # Processes of pytest-xdist have another one.
  before = signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with stop_signals.StopSignals(True, lambda: now[0]) as signals:
      signal.raise_signal(signal.SIGINT)
      signal.raise_signal(signal.SIGINT)  # The same request.
      assert signals.first == signal.SIGINT
      now[0] += 2.
      with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
  finally:
    signal.signal(signal.SIGINT, before)


def _interrupted(ending, handler, signum, before=''):
  """Sends a signal to a `try` that waits; returns the program's exit code.

  Its output must be `ending`. `before` is run before it waits.
  """
  with programs.running('-c', f'''
import time
from impala_tf.cli import program
from impala_tf.runtime import stop_signals
from tests.fixtures import programs
def play():
  with stop_signals.interrupting():
    {before}
    try:
      print('ready', flush=True)
      time.sleep(1000)
{handler}
raise SystemExit(program.run(play))
''') as process:
    assert process.stdout.readline() == 'ready\n'
    process.send_signal(signum)
    output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
    assert (output, errors) == (ending, '')
    return process.returncode


@pytest.mark.parametrize('signum', stop_signals.STOP_SIGNALS)
def test_signal_interrupts_so_that_endings_are_played(signum):
  assert _interrupted('closed\n', '''
    finally:
      print('closed', flush=True)''', signum) == 128 + signum


def test_signal_that_came_right_before_a_system_call_interrupts_it():
  # Only the watch has read it, as the main thread's handler waits for Python.
  assert _interrupted('closed\n', '''
    finally:
      print('closed', flush=True)''', 0, before='''
    import os, signal
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    os.write(wakeup, bytes([signal.SIGTERM]))''') == 128 + signal.SIGTERM


def test_one_signal_is_no_repeated_one_while_the_main_thread_is_in_c():
  made = []
  with pytest.raises(KeyboardInterrupt):
    with stop_signals.interrupting(), stop_signals.uninterrupted():
      signal.raise_signal(signal.SIGTERM)
      # So long that a second signal would be another request.
      signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals.STOP_SIGNALS)
      time.sleep(1.2)
      signal.pthread_sigmask(signal.SIG_UNBLOCK, stop_signals.STOP_SIGNALS)
      made.append(True)
  assert made


def test_signals_while_endings_are_played_say_nothing():
  assert _interrupted('closed\n', '''
    finally:
      import signal
      for signum in stop_signals.STOP_SIGNALS:
        time.sleep(0.05)  # The watch has read those before.
        signal.raise_signal(signum)
      print('closed', flush=True)''', signal.SIGINT) == 128 + signal.SIGINT


@pytest.mark.parametrize('fails', [False, True])
def test_first_signal_while_something_closes_is_handled_afterwards(fails):
  closed = []

  class Environments:

    def close(self):
      signal.raise_signal(signal.SIGTERM)
      closed.append(self)
      if fails:
        raise ValueError('close() fails, too')

  with pytest.raises(KeyboardInterrupt) as raised:
    with stop_signals.interrupting(), stop_signals.Closing(Environments()):
      raise ConnectionError('the learner has gone')
  assert len(closed) == 1 and raised.value.args == (signal.SIGTERM,)


def test_error_that_a_library_makes_of_the_interrupt_is_an_interrupt():
  assert _interrupted('', '''
    except KeyboardInterrupt:
      raise SystemError('returned a result with an exception set')''',
                      signal.SIGTERM) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_closing_that_hangs_or_ignores_the_signal_has_a_deadline():
  # Its output ends once the simulator, which has it too, has ended.
  assert _interrupted('', '''
    except KeyboardInterrupt:  # As some simulators have it.
      time.sleep(1000)''', signal.SIGTERM, before='''
    import subprocess
    simulator = subprocess.Popen(['sleep', '1000'], start_new_session=True)
''') == 128 + signal.SIGTERM
