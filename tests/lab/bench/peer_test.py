"""Speeds of other libraries, with a stand-in that counts."""

import contextlib
import itertools
import shlex
import sys
import types

import psutil
import pytest

from impala_tf import config as config_lib
from lab.bench import peer
from tests.fixtures import programs

# Counts 25 a line, in a child; nobody else uses the number.
_COUNTING = '''
import subprocess, sys
subprocess.run([sys.executable, "-c", """
import itertools, time
for number in itertools.count():
  time.sleep(0.05)
  print(f"Steps {25 * number} @", flush=True)
""", "stand_in_of_a_peer"])
'''


def _command(code):
  return shlex.join([sys.executable, '-c', code])


def test_speed_is_in_frames_and_nothing_goes_on_after(monkeypatch):
  times = itertools.count(7., 0.1)  # A line comes in a tenth of a second.
  monkeypatch.setattr(peer, 'time', types.SimpleNamespace(
      monotonic=lambda: next(times)))
  speed = peer.measure(_command(_COUNTING), r'Steps (\d+) @', 4., secs=1.,
                       warm_up_secs=0.2)
  assert speed.frames_per_sec == pytest.approx(1000)
  assert speed.cpu_secs_per_1000_frames < 1
  assert not any('stand_in_of_a_peer' in (p.info['cmdline'] or ())
                 for p in psutil.process_iter(['cmdline']))


@pytest.mark.parametrize('command,words', [
    ('/nowhere/at_all', '--command: .*nowhere'),
    (_command('print("no module of that name")'), 'no module of that name'),
    (_command('import time\nfor _ in range(30): '
              'time.sleep(0.05); print("Steps 1 @", flush=True)'),
     'did not get on')])
def test_command_that_does_not_train_is_named_with_its_last_words(
    command, words):
  with pytest.raises(config_lib.UserError, match=words):
    peer.measure(command, r'Steps (\d+) @', 1., secs=1., warm_up_secs=0.)


@pytest.mark.parametrize('arguments,words', [
    (['--count=Steps (\\d+'], 'is no regular expression: missing )'),
    (['--count=Steps \\d+'], 'must have one group, for the number, but has 0'),
    (['--frames_per_count=nan'], 'must be above 0, but is nan'),
    (['--rounds=0'], '--rounds must be at least 1, but is 0'),
    (['--gin_binding=LearnerConfig.batch_sise = 8'],
     'did you mean LearnerConfig.batch_size?')])
def test_bad_input_is_refused_before_anything_starts(refused, arguments, words):
  assert words in refused(
      peer.main, '--command=true', r'--count=Steps (\d+)', *arguments)


@pytest.mark.slow
def test_asked_to_terminate_while_the_run_is_held_it_leaves_nothing_behind(
    tmp_path):
  marker = tmp_path / 'peer_has_started'
  command = _command(f'open({str(marker)!r}, "w").close(); '
                     'import time; time.sleep(300)')
  with programs.running(
      '-m', 'lab.bench.peer', 'configs/catch.gin', f'--command={command}',
      r'--count=Steps (\d+)', variables={'TMPDIR': str(tmp_path)}) as process:
    programs.wait_until(
        lambda: marker.exists() or process.poll() is not None,
        'the command of the peer', 200)
    children = psutil.Process(process.pid).children(recursive=True)
    assert any(p.status() == psutil.STATUS_STOPPED for p in children)
    process.terminate()
    assert process.wait(timeout=60) == 143
    left = psutil.wait_procs(children, timeout=10)[1]
    for child in left:
      with contextlib.suppress(psutil.NoSuchProcess):
        child.kill()
  assert left == list(tmp_path.glob('impala_benchmark_*')) == []
