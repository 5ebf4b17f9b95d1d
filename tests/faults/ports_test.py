"""Tests of learners that share a port and of runs that share a directory."""

import pytest

from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# A program that imports TensorFlow once. For each port that it reads, two
# processes try to serve there from the same moment on. It prints the outcomes.
# Whoever serves does so until the other has ended, however late that began.
_RIVALS = """
import os, select, sys, time
from impala_tf.core import queue as queue_lib
from tests.fixtures import unrolls

def serve(port, start, pipe, other_has_ended):
  while time.time() < start:
    pass
  try:
    queue = queue_lib.make_queue(unrolls.spec(), 2)
    server = queue_lib.make_server([queue], port)
    os.write(pipe, b'served ')
    select.select([other_has_ended], [], [], 60.)
  except OSError as error:
    assert 'choose another' in str(error)
    os.write(pipe, b'refused ')

for line in sys.stdin:
  ours, theirs = os.pipe()
  other_has_ended, tell = os.pipe()
  start = time.time() + 0.2
  for _ in range(2):
    if not os.fork():
      try:
        serve(int(line), start, theirs, other_has_ended)
      finally:
        os._exit(0)
  os.wait()
  os.write(tell, b'.')
  os.wait()
  os.close(theirs)
  print(os.read(ours, 100).decode(), flush=True)
  for pipe in (ours, other_has_ended, tell):
    os.close(pipe)
"""


def test_one_of_two_servers_gets_the_port(fault):
  with programs.running('-c', _RIVALS, stdin=programs.PIPE) as process:
    for _ in range(fault.tries):
      said = programs.ask(process, ports.choose()).split()
      assert sorted(said) == ['refused', 'served'], process.stderr.read()
  fault.report('two servers at once on one port')


def test_second_run_is_refused_at_once(tmp_path, fault):
  """Tries the directory of a live run, and its port."""
  port = ports.choose()
  with runs.training(tmp_path / 'one', f'--port={port}') as run:
    run.wait_for_frames()
    for _ in range(fault.tries):
      for name, flags, words in (
          ('one', (), 'another process is training'),
          ('two', (f'--port={port}',), f'port {port} cannot be used')):
        with fault.recovery():
          line = programs.error_line(programs.run(
              'impala_tf', 'train', *programs.CATCH,
              f'--run_dir={tmp_path / name}', *flags, runs.ENDLESS))
        assert words in line
      assert not (tmp_path / 'two').exists()
    run.wait_for_frames()
  fault.report('a second run in a live directory, or on its port (time to be '
               'refused)')
