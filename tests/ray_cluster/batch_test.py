"""Tests of batches on a cluster, which leave no program behind."""

import re

import pytest

from impala_tf.cli import sweep
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runs import metrics
from impala_tf.runtime import batch as batch_lib
from impala_tf.runtime import waiting
from impala_tf.sweeps import results as results_lib
from tests.fixtures import batch_contract
from tests.fixtures import programs
from tests.fixtures import sweep_files

pytest.importorskip('ray', reason="needs the extra 'ray'")

from impala_tf.ray_cluster import program as ray_program  # noqa: E402  Ray.
from tests.fixtures import ray_nodes  # noqa: E402

WELL = batch_contract.WELL

pytestmark = pytest.mark.timeout(900)
_DEADLINE_SECS = 300.


@pytest.fixture(name='cluster', scope='module')
def _cluster(shared_cluster):
  with ray_connection.connected(shared_cluster.address):
    yield shared_cluster


@pytest.fixture(name='start')
def _start(tmp_path, cluster):
  del cluster

  def start(modes, num_jobs, cpus=1., wait_secs=_DEADLINE_SECS, **kwargs):
    return batch_contract.run(
        ray_program.make_batch(
            num_jobs, str(tmp_path / 'logs'), batch_contract.ENVIRONMENT,
            ray_connection.Resources(cpus, 0.), [str(tmp_path)], wait_secs),
        tmp_path, modes, **kwargs)

  return start


@pytest.mark.slow
class TestRayBatch(batch_contract.BatchContract):
  pass


@pytest.mark.slow
@pytest.mark.parametrize('max_losses', [0, 1])
def test_lost_with_its_node_it_is_started_again_elsewhere(
    start, tmp_path, cluster, max_losses):
  turns = batch_lib.Turns()
  turns.max_losses = max_losses

  def on_end(name, unused_ended):
    if name == 'after_2/0':
      log = (tmp_path / 'logs' / 'second' / '1.log').read_text()
      ray_nodes.lose(cluster, re.search(r'\(node (\w+)\)', log).group(1))

  # Each program fills a node.
  signum, ends = start(['after_2', 'second', 'short'], num_jobs=2,
                       on_end=on_end, turns=turns, cpus=2.)
  ray_nodes.add_node(cluster, num_cpus=2)
  assert signum is None
  assert ends['after_2/0'] == ends['short/2'] == WELL
  if max_losses:
    assert ends['second/1'] == WELL
    assert len(batch_contract.pids(tmp_path, '1')) == 2
  else:
    assert ends['second/1'].exit_code == 1
    assert not ends['second/1'].was_stopped
    assert ends['second/1'].error.startswith('was lost: ')


@pytest.mark.slow
def test_no_room_is_not_waited_for_forever(start):
  with pytest.raises(waiting.PeerMissing, match='1 s for room on the cluster'):
    start(['short'], num_jobs=1, cpus=3., wait_secs=1.)


# Real sweeps.

_CATCH = {
    'ExperimentConfig.in_process': True,
    'ExperimentConfig.checkpoint_interval_secs': 1.,
    'LearnerConfig.batch_size': 8, 'LearnerConfig.unroll_length': 5,
    'ActorConfig.num_actors': 1, 'ActorConfig.num_envs': 4}


@pytest.mark.nightly
def test_agents_of_a_sweep_share_a_replay_on_rays_own_cluster_here(tmp_path):
  path = sweep_files.write(
      tmp_path / 'my_sweep.gin', shared_replay=True,
      fixed={**_CATCH, 'ExperimentConfig.total_frames': 20_000,
             'ReplayConfig.replay_fraction': 0.5},
      points={'slow': {'OptimizerConfig.learning_rate': 0.001},
              'fast': {'OptimizerConfig.learning_rate': 0.002}})
  sweep_dir = tmp_path / 'sweep'
  ran = programs.run(
      'impala_tf', 'sweep', path, f'--sweep_dir={sweep_dir}', '--engine=ray',
      '--run_cpus=0.5', timeout=_DEADLINE_SECS, check=True)
  assert '2 of 2 runs to do' in ran.stdout
  for result in results_lib.from_csv((sweep_dir / 'results.csv').read_text()):
    assert result.status == 'finished' and result.frames == 20_000
    rows = metrics.read_rows(str(sweep_dir / 'runs' / result.run.name))
    assert 0 < rows[-1]['replayed/foreign_share'] < 1
    assert rows[-1]['unrolls_refused'] == 0


@pytest.mark.parametrize('flag, words', [
    ('--ray_address=auto', 'are for --engine=ray'),
    ('--run_cpus=0', '--run_cpus must be above 0, but is 0'),
    ('--run_gpus=-1', '--run_gpus must be at least 0, but is -1')])
def test_bad_flag_is_refused(refused, tmp_path, flag, words):
  assert words in refused(sweep.main, 'configs/sweeps/example.gin',
                          f'--sweep_dir={tmp_path / "sweep"}', flag)
  assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_sweep_without_room_for_a_run_is_refused(tmp_path, cluster):
  path = sweep_files.write(tmp_path / 'my_sweep.gin', fixed=_CATCH)
  line = programs.error_line(programs.run(
      'impala_tf', 'sweep', path, f'--sweep_dir={tmp_path / "sweep"}',
      '--engine=ray', f'--ray_address={cluster.address}', '--run_gpus=1',
      timeout=_DEADLINE_SECS))
  assert 'no node has 1 CPU, 1 GPU for a run: the cluster has 3 nodes' in line
  assert list(tmp_path.iterdir()) == [path]
