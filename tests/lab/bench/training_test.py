"""A real run as the benchmark sees it, with a stand-in for `cli.train`."""

import contextlib
import sys

import psutil
import pytest

from lab.bench import training
from tests.fixtures import programs

# Started as `impala_tf.cli.train` is; its roles do nothing. SIGCHLD is ignored
# where the system is to forget them as soon as they end, else they stay as
# zombies.
_STAND_IN = '''#!{python}
import os, signal, subprocess, sys, time
if {forgets}:
  signal.signal(signal.SIGCHLD, signal.SIG_IGN)
run_dir, = (a[10:] for a in sys.argv if a.startswith('--run_dir='))
os.makedirs(run_dir)
for role in {roles}:  # From then on their memory stays as it is.
  subprocess.Popen(
      ['{python}', '-c', 'import time; print(flush=True); time.sleep(300)',
       'impala_tf', 'role', role], stdout=subprocess.PIPE).stdout.readline()
with open(run_dir + '/metrics.jsonl', 'w') as file:
  file.write('{{"frames": 1}}\\n')
time.sleep(300)
'''


@pytest.fixture(name='start')
def _start(tmp_path, monkeypatch):
  """Yields a function that starts a run with such roles."""
  with contextlib.ExitStack() as stack:

    def start(roles, forgets=True):
      path = tmp_path / 'stand_in'
      path.write_text(_STAND_IN.format(
          python=sys.executable, forgets=forgets, roles=roles))
      path.chmod(0o700)
      monkeypatch.setattr(sys, 'executable', str(path))
      run = training.TrainingRun('pong.gin', [])
      stack.callback(run.close)
      return run

    yield start


def _has_ended(process):
  return (not process.is_running()
          or process.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize('forgets', [True, False])
def test_process_that_ends_during_a_look_has_no_memory(
    start, monkeypatch, forgets):
  run = start(['learner', 'actor', 'actor'], forgets)
  whole = run.pss_mib()
  assert set(whole) == {'supervisor', 'learner', 'actors'}
  ending = run.actor_pids()[:1]
  memory_full_info = psutil.Process.memory_full_info

  def after_it_has_ended(process):
    if process.pid in ending:
      process.kill()
      programs.wait_until(lambda: _has_ended(process), 'its end')
    return memory_full_info(process)

  monkeypatch.setattr(psutil.Process, 'memory_full_info', after_it_has_ended)
  look = run.pss_mib()
  assert 0 < look['actors'] < whole['actors'] and look['learner'] > 0
  ending += run.actor_pids()
  assert run.pss_mib()['actors'] == 0


def test_single_process_is_told_from_a_supervisor(start):
  assert list(start([]).pss_mib()) == ['in_process']
