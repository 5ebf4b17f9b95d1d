"""What holds of every engine that runs programs, so many at a time."""

import os
import signal
import time

from launch import local_engine
from tests import programs

ENVIRONMENT = {'MY_VARIABLE': 'mine'}
WELL = local_engine.Ended(0, False, '')


def run(engine, directory, modes, on_end=lambda name, ended: None):
  """Runs `engine_program` once for each mode.

  Returns:
    The signal that ended the engine, and by 'mode/number' how each ended.
  """
  ends = {}

  def note(name, ended):
    ends[name] = ended
    on_end(name, ended)

  signum = engine.run(
      {f'{mode}/{i}': ['tests.launch.engine_program', mode, str(i),
                       str(directory)] for i, mode in enumerate(modes)}, note)
  return signum, ends


def pids(directory, name='*'):
  """Of all starts of the programs of that number."""
  return [int(path.name.rpartition('_')[2])
          for path in directory.glob(f'pid_{name}_*')]


class EngineContract:
  """Tests of the engine that the fixture `start` runs.

  `start(modes, num_jobs, on_end)` is `run` with `tmp_path / 'logs'` for logs.

  Attributes:
    module: where the engine is.
  """
  module = None

  def test_so_many_run_at_a_time(self, start, tmp_path):
    modes = ['after_2'] * 2 + ['short'] * 3  # Two that wait for each other.
    signum, ends = start(modes, num_jobs=2)
    assert signum is None
    assert list(ends.values()) == [WELL] * 5
    texts = [p.read_text().split() for p in tmp_path.glob('times_*')]
    assert len(texts) == 5 and {text[2] for text in texts} == {'mine'}
    times = [(float(start), float(end)) for start, end, _ in texts]
    at_once = [sum(a <= start < b for a, b in times) for start, _ in times]
    assert max(at_once) == 2

  def test_failure_is_told_in_one_line_and_the_others_go_on(
      self, start, tmp_path):
    signum, ends = start(['bad', 'short'], num_jobs=1)
    assert signum is None
    assert ends == {
        'bad/0': local_engine.Ended(
            1, False, 'ended with exit code 1: it was bad'),
        'short/1': WELL}
    assert 'it was bad' in (tmp_path / 'logs' / 'bad' / '0.log').read_text()

  def test_signal_ends_all_even_those_that_do_not_listen(
      self, start, tmp_path, monkeypatch):
    monkeypatch.setattr(self.module, '_STOP_SECS', 1.)
    before = signal.getsignal(signal.SIGINT)
    stopped = []

    def press_ctrl_c(unused_name, unused_ended):
      if not stopped:
        stopped.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    modes = ['after_3', 'stubborn', 'long', 'never_started']
    signum, ends = start(modes, num_jobs=3, on_end=press_ctrl_c)
    assert time.monotonic() - stopped[0] < 10
    assert signum == signal.SIGINT
    assert ends.keys() == {'after_3/0', 'stubborn/1', 'long/2'}
    assert ends['stubborn/1'].exit_code == -signal.SIGKILL
    assert ends['stubborn/1'].was_stopped and ends['long/2'].was_stopped
    # Where an engine's word is a message, they may be dead a moment later.
    programs.wait_until(
        lambda: not any(map(programs.is_alive, pids(tmp_path))), 'their ends')
    assert signal.getsignal(signal.SIGINT) == before
