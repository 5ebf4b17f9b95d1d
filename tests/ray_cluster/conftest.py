"""Ray's tests share a cluster, which takes seconds to start."""

import os
import sys

import pytest

# On the path of the cluster only, not of the tests.
_PROGRAM = """
import os, signal, sys, time
mode = sys.argv[1] + os.environ['CUDA_VISIBLE_DEVICES']  # Of no GPU.
signal.signal(signal.SIGTERM, lambda *unused: sys.exit(143))
print('pid', os.getpid(), os.environ['MY_VARIABLE'], os.getcwd(), flush=True)
if mode == 'bad':
  sys.exit('error: it was bad')
if mode == 'long':
  time.sleep(1000)
sys.stdout.write('x' * 200_000 + 'the end')
sys.exit(3)
"""


@pytest.fixture(name='shared_cluster', scope='session')
def _shared_cluster(tmp_path_factory):
  """Yields a cluster of two nodes with 2 CPUs each, beside its head.

  Its programs find the module `my_program`. A test that loses a node adds
  another, for whichever test is next.
  """
  pytest.importorskip('ray', reason="needs the extra 'ray'")
  from tests.fixtures import ray_nodes
  directory = tmp_path_factory.mktemp('path')
  (directory / 'my_program.py').write_text(_PROGRAM)
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('PYTHONPATH', os.pathsep.join([str(directory), *sys.path]))
    patch.setenv('CUDA_VISIBLE_DEVICES', '7')
    with ray_nodes.running(num_nodes=2, num_cpus=2) as cluster:
      yield cluster
