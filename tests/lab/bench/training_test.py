"""A real run as the benchmark sees it, with a stand-in for `cli.train`."""

import contextlib
import sys

import psutil
import pytest

from lab.bench import training
from tests.fixtures import programs

# Started as `impala_tf.cli.train` is; its roles do nothing.
_STAND_IN = '''#!{python}
import os, subprocess, sys, time
run_dir, = (a[10:] for a in sys.argv if a.startswith('--run_dir='))
os.makedirs(run_dir)
for role in 'learner', 'actor', 'actor':  # Their memory stays as it is.
  subprocess.Popen(
      ['{python}', '-c', 'import time; print(flush=True); time.sleep(300)',
       'impala_tf', 'role', role], stdout=subprocess.PIPE).stdout.readline()
with open(run_dir + '/metrics.jsonl', 'w') as file:
  file.write('{{"frames": 1}}\\n')
time.sleep(300)
'''


@pytest.fixture(name='run')
def _run(tmp_path, monkeypatch):
  path = tmp_path / 'stand_in'
  path.write_text(_STAND_IN.format(python=sys.executable))
  path.chmod(0o700)
  monkeypatch.setattr(sys, 'executable', str(path))
  with contextlib.closing(training.TrainingRun('pong.gin', [])) as run:
    yield run


def test_process_that_ends_during_a_look_has_no_memory(run, monkeypatch):
  whole = run.pss_mib()
  assert set(whole) == {'supervisor', 'learner', 'actors'}
  ending = run.actor_pids()[:1]
  memory_full_info = psutil.Process.memory_full_info

  def after_it_has_ended(process):
    if process.pid in ending:
      process.kill()
      programs.wait_until(
          lambda: process.status() == psutil.STATUS_ZOMBIE, 'its end')
    return memory_full_info(process)

  monkeypatch.setattr(psutil.Process, 'memory_full_info', after_it_has_ended)
  look = run.pss_mib()
  assert 0 < look['actors'] < whole['actors'] and look['learner'] > 0
  ending += run.actor_pids()
  assert run.pss_mib()['actors'] == 0
