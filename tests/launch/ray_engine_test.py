"""Programs on a cluster, so many at a time, and none stays behind."""

import os
import re
import signal
import sys
import time

import pytest

from impala_tf import sweep_results
from impala_tf import waiting
from launch import local_engine
from launch import ray_connection
from tests import programs

pytest.importorskip('ray', reason="needs the extra 'ray'")

from launch import ray_engine  # noqa: E402  It needs Ray.
from tests import ray_nodes  # noqa: E402

Ended = local_engine.Ended

_SLOW_START = pytest.mark.timeout(900)
_DEADLINE_SECS = 300.

_PROGRAM = """
import os, pathlib, signal, sys, time
mode, name, directory = sys.argv[1:]
started = time.monotonic()
if mode == 'stubborn':
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(directory, f'pid_{name}_{os.getpid()}').touch()
if mode == 'bad':
  sys.exit('error: it was bad')
if mode.startswith('after_'):  # So many have been started.
  while len(list(pathlib.Path(directory).glob('pid_*'))) < int(mode[-1]):
    time.sleep(0.05)
  mode = 'short'
if mode == 'second':  # Ends when it is started for the second time.
  mode = 'short' if len(list(
      pathlib.Path(directory).glob(f'pid_{name}_*'))) > 1 else 'long'
time.sleep(0.5 if mode == 'short' else 600)
pathlib.Path(directory, f'times_{name}').write_text(
    f'{started} {time.monotonic()} {os.environ["MY_VARIABLE"]}')
"""


@pytest.fixture(name='cluster', scope='module')
def _cluster(tmp_path_factory):
  directory = tmp_path_factory.mktemp('path')
  (directory / 'my_program.py').write_text(_PROGRAM)
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('PYTHONPATH', os.pathsep.join([str(directory), *sys.path]))
    with ray_nodes.running(num_nodes=2, num_cpus=2) as cluster:
      with ray_connection.connected(cluster.address):
        yield cluster


@pytest.fixture(name='start')
def _start(tmp_path, cluster):
  del cluster

  def start(modes, num_jobs, on_end=lambda name, ended: None, cpus=1.,
            wait_secs=60.):
    engine = ray_engine.RayEngine(
        num_jobs, str(tmp_path / 'logs'), {'MY_VARIABLE': 'mine'},
        ray_connection.Resources(cpus, 0.), [str(tmp_path)], wait_secs)
    ends = {}

    def note(name, ended):
      ends[name] = ended
      on_end(name, ended)

    signum = engine.run(
        {f'{mode}/{i}': ['my_program', mode, str(i), str(tmp_path)]
         for i, mode in enumerate(modes)}, note)
    return signum, ends

  return start


def _pids(directory, name='*'):
  return [int(p.name.rpartition('_')[2])
          for p in directory.glob(f'pid_{name}_*')]


def test_so_many_run_at_a_time(start, tmp_path):
  modes = ['after_2'] * 2 + ['short'] * 3  # Two that wait for each other.
  signum, ends = start(modes, num_jobs=2)
  assert signum is None
  assert list(ends.values()) == [Ended(0, False, '')] * 5
  texts = [p.read_text().split() for p in tmp_path.glob('times_*')]
  assert len(texts) == 5 and {text[2] for text in texts} == {'mine'}
  times = [(float(start), float(end)) for start, end, _ in texts]
  assert max(sum(a <= start < b for a, b in times) for start, _ in times) == 2


def test_failure_is_told_in_one_line_and_the_others_go_on(start, tmp_path):
  signum, ends = start(['bad', 'short'], num_jobs=1)
  assert signum is None
  assert ends == {
      'bad/0': Ended(1, False, 'ended with exit code 1: it was bad'),
      'short/1': Ended(0, False, '')}
  assert 'it was bad' in (tmp_path / 'logs' / 'bad' / '0.log').read_text()


def test_signal_ends_all_even_those_that_do_not_listen(
    start, tmp_path, monkeypatch):
  monkeypatch.setattr(ray_engine, '_STOP_SECS', 1.)
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
  programs.wait_until(
      lambda: not any(map(programs.is_alive, _pids(tmp_path))), 'their ends')
  assert signal.getsignal(signal.SIGINT) == before


def _lose_node(cluster, log_dir, name):
  log = (log_dir / f'{name}.log').read_text()
  ray_nodes.lose(cluster, re.search(r'\(node (\w+)\)', log).group(1))


@pytest.mark.parametrize('max_losses', [0, 1])
def test_lost_with_its_node_it_is_started_again_elsewhere(
    start, tmp_path, cluster, monkeypatch, max_losses):
  monkeypatch.setattr(ray_engine, '_MAX_LOSSES', max_losses)

  def on_end(name, unused_ended):
    if name == 'after_2/0':
      _lose_node(cluster, tmp_path / 'logs', 'second/1')

  # A node each.
  signum, ends = start(['after_2', 'second', 'short'], 2, on_end, cpus=2.)
  ray_nodes.add_node(cluster, num_cpus=2)
  assert signum is None
  assert ends['after_2/0'] == ends['short/2'] == Ended(0, False, '')
  if max_losses:
    assert ends['second/1'] == Ended(0, False, '')
    assert len(_pids(tmp_path, '1')) == 2
  else:
    assert ends['second/1'].exit_code == 1
    assert not ends['second/1'].was_stopped
    assert ends['second/1'].error.startswith('was lost: ')


def test_no_room_is_not_waited_for_forever(start):
  with pytest.raises(waiting.PeerMissing, match='1 s for room on the cluster'):
    start(['short'], num_jobs=1, cpus=3., wait_secs=1.)


# Real sweeps.

_SWEEP = """
from __gin__ import dynamic_registration
from impala_tf import sweeps
sweeps.SweepConfig.tasks = {'catch': 'configs/catch.gin'}
sweeps.SweepConfig.fixed = {
    'ExperimentConfig.in_process': True,
    'ExperimentConfig.checkpoint_interval_secs': 1.0,
    'LearnerConfig.batch_size': 8, 'LearnerConfig.unroll_length': 5,
    'ActorConfig.num_actors': 1, 'ActorConfig.num_envs': 4}
# Short runs have one row, which is the same each time.
sweeps.SweepConfig.points = {
    'short': {'ExperimentConfig.total_frames': 1600,
              'ExperimentConfig.log_interval_secs': 1000.0},
    'other': {'ExperimentConfig.total_frames': 1600,
              'ExperimentConfig.log_interval_secs': 1000.0,
              'OptimizerConfig.learning_rate': 0.01},
    'long': {'ExperimentConfig.total_frames': %d,
             'ExperimentConfig.log_interval_secs': 0.5}}
"""
_LONG = 'catch/default/long/seed_1'


@pytest.mark.slow
@_SLOW_START
def test_sweep_without_a_cluster_runs_here(tmp_path):
  path = tmp_path / 'my_sweep.gin'
  path.write_text(_SWEEP % 1600)
  ran = programs.run(
      'launch.sweep', path, f'--sweep_dir={tmp_path / "sweep"}',
      '--engine=ray', '--run_cpus=0.5', timeout=_DEADLINE_SECS)
  assert ran.returncode == 0, (ran.stdout, ran.stderr)
  assert '3 of 3 runs to do' in ran.stdout
  assert {r.status for r in _results(tmp_path / 'sweep').values()} == {
      'finished'}


def _results(sweep_dir):
  """By name of the run, without what differs from time to time."""
  results = sweep_results.from_csv((sweep_dir / 'results.csv').read_text())
  return {r.run.name: r._replace(secs=None) for r in results}


@pytest.mark.slow
@_SLOW_START
def test_sweep_outlives_a_node_and_has_the_results_of_a_local_one(tmp_path):
  path = tmp_path / 'my_sweep.gin'
  path.write_text(_SWEEP % 60_000)
  local, remote = tmp_path / 'local', tmp_path / 'remote'
  log = remote / 'logs' / f'{_LONG}.log'
  with ray_nodes.running(num_nodes=3, num_cpus=1) as cluster:
    with (tmp_path / 'output').open('w') as output:
      with programs.running(
          '-m', 'launch.sweep', path, f'--sweep_dir={remote}', '--engine=ray',
          f'--ray_address={cluster.address}', stdout=output,
          stderr=output) as process:
        programs.wait_until(
            lambda: process.poll() is not None or (
                log.exists() and log.read_text().count(' frames (') > 2),
            'the long run', _DEADLINE_SECS)
        assert process.poll() is None, (tmp_path / 'output').read_text()
        _lose_node(cluster, remote / 'logs', _LONG)
        process.wait(_DEADLINE_SECS)
  said = (tmp_path / 'output').read_text()
  assert process.returncode == 0, said
  assert '3 of 3 runs to do' in said and '3 at a time' in said
  assert log.read_text().count('started on ') == 2
  assert re.search(r'Resuming from \S+/ckpt-\d+ at', log.read_text())
  ran = programs.run('launch.sweep', path, f'--sweep_dir={local}',
                     timeout=_DEADLINE_SECS)
  assert ran.returncode == 0, ran.stderr
  expected, found = _results(local), _results(remote)
  assert found.pop(_LONG).frames == expected.pop(_LONG).frames == 60_000
  assert found == expected


@pytest.mark.parametrize('flag, words', [
    ('--ray_address=auto', 'are for --engine=ray'),
    ('--run_cpus=2', 'are for --engine=ray'),
    ('--run_gpus=1', 'are for --engine=ray'),
    ('--run_cpus=0', '--run_cpus must be above 0, but is 0'),
    ('--run_gpus=-1', '--run_gpus must be at least 0, but is -1')])
def test_bad_flag_is_refused(tmp_path, flag, words):
  line = programs.error_line(programs.run(
      'launch.sweep', 'configs/sweeps/example.gin',
      f'--sweep_dir={tmp_path / "sweep"}', flag))
  assert words in line and not list(tmp_path.iterdir())


def test_sweep_without_room_for_a_run_is_refused(tmp_path, cluster):
  path = tmp_path / 'my_sweep.gin'
  path.write_text(_SWEEP % 1600)
  line = programs.error_line(programs.run(
      'launch.sweep', path, f'--sweep_dir={tmp_path / "sweep"}',
      '--engine=ray', f'--ray_address={cluster.address}', '--run_gpus=1'))
  assert 'no node has 1 CPU, 1 GPU for a run: the cluster has 3 nodes' in line
  assert list(tmp_path.iterdir()) == [path]
