"""A cluster of Ray on this machine, whose nodes can be lost."""

import contextlib
import os

from ray import cluster_utils

# Soon enough for a test, and late enough for a machine that is busy.
_HEALTH = {'health_check_initial_delay_ms': 0, 'health_check_period_ms': 1000,
           'health_check_timeout_ms': 5000, 'health_check_failure_threshold': 5}
_OPTIONS = {'object_store_memory': 100 * 2**20, 'include_dashboard': False}


@contextlib.contextmanager
def running(num_nodes, num_cpus, **options):
  """Yields a `cluster_utils.Cluster`: a head without CPUs, and these nodes.

  Who connects to it is at the head, so that any other node can be lost.
  """
  os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
  cluster = cluster_utils.Cluster(
      initialize_head=True,
      head_node_args={'num_cpus': 0, '_system_config': _HEALTH, **_OPTIONS})
  try:
    for _ in range(num_nodes):
      add_node(cluster, num_cpus, **options)
    yield cluster
  finally:
    cluster.shutdown()


def add_node(cluster, num_cpus, **options):
  """Returns it; such as a replacement for one that was lost."""
  return cluster.add_node(num_cpus=num_cpus, **_OPTIONS, **options)


def lose(cluster, node_id):
  """Kills all of Ray that runs on the node, as the end of a machine does."""
  node, = [n for n in cluster.worker_nodes if n.node_id.startswith(node_id)]
  cluster.remove_node(node, allow_graceful=False)
