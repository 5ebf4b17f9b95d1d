"""Speeds of other libraries, with a stand-in that counts."""

import shlex
import sys

import psutil
import pytest

from impala_tf import config as config_lib
from launch.benchmark import peer

# Counts 250 a second, in a child; nobody else uses the number.
_COUNTING = '''
import subprocess, sys
subprocess.run([sys.executable, "-c", """
import time
start = time.monotonic()
while True:
  time.sleep(0.05)
  print(f"Steps {int(250 * (time.monotonic() - start))} @", flush=True)
""", "stand_in_of_a_peer"])
'''


def _command(code):
  return shlex.join([sys.executable, '-c', code])


def test_speed_is_in_frames_and_nothing_goes_on_after():
  speed = peer.measure(_command(_COUNTING), r'Steps (\d+) @', 4., secs=1.,
                       warm_up_secs=0.2)
  assert speed.frames_per_sec == pytest.approx(1000, rel=0.2)
  assert speed.cpu_secs_per_1000_frames < 1
  assert not any('stand_in_of_a_peer' in (p.info['cmdline'] or ())
                 for p in psutil.process_iter(['cmdline']))


@pytest.mark.parametrize('command,words', [
    ('/nowhere/at_all', '--command: .*nowhere'),
    (_command('print("no module of that name")'), 'no module of that name'),
    (_command('print("Steps 1 @")'), 'did not get on'),
    (_command('import time\nfor _ in range(30): '
              'time.sleep(0.05); print("Steps 1 @", flush=True)'),
     'did not get on'),
])
def test_command_that_does_not_train_is_told_with_its_last_words(
    command, words):
  with pytest.raises(config_lib.UserError, match=words):
    peer.measure(command, r'Steps (\d+) @', 1., secs=1., warm_up_secs=0.)
