"""`impala_tf.cli.cluster` as a user runs it, on clusters that lose nodes."""

import contextlib
import re
import signal
import time

import pytest

from impala_tf.cli import cluster
from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import waiting
from tests.fixtures import programs
from tests.fixtures import two_learners
from tests.fixtures.faults import runs

pytest.importorskip('ray', reason="needs the extra 'ray'")

from tests.fixtures import ray_nodes  # noqa: E402

_DEADLINE_SECS = 300.
_CONFIG, *_BINDINGS = programs.CATCH
_FLAGS = (f'--config={_CONFIG}', *_BINDINGS,
          '--gin_binding=ActorConfig.num_actors = None')


# Bad input.


@pytest.mark.parametrize('flag, words', [
    ('--num_actors=0', '--num_actors must be above 0, but is 0'),
    ('--learner_gpus=-1', '--learner_gpus must be at least 0, but is -1'),
    ('--port=65536', '--port must be at most 65535')])
def test_bad_flag_is_refused_in_one_line(refused, flag, words):
  assert words in refused(cluster.main, *_FLAGS, '--network=open', flag)


@pytest.mark.parametrize('what, code', [
    (KeyboardInterrupt(), 130), (program_lib.RunFailed('it broke'), 1),
    (waiting.PeerMissing('in vain'), 1)])
def test_exit_code_is_that_of_the_error(call, monkeypatch, capsys, what, code):

  def connect(*unused):
    raise what

  monkeypatch.setattr(ray_connection, 'connected', connect)
  assert call(cluster.main, *_FLAGS, '--network=open') == code
  assert capsys.readouterr().err == (f'error: {what}\n' if code == 1 else '')


# Real runs.


class _Run(runs.Run):
  """A run that is going on, with logs of all its programs."""

  def __init__(self, run_dir, process, output):
    super().__init__(run_dir, process)
    self._output = output

  def output(self):
    return self._output.read_text()

  def log(self, name='cluster'):
    path = self.run_dir / 'logs' / f'{name}.log'
    return path.read_text() if path.exists() else ''

  def wait(self, condition, what):
    def holds():
      value = condition()
      if not value and self.process.poll() is not None:
        raise AssertionError((what, self.output(), self.log()))
      return value
    return programs.wait_until(holds, what, _DEADLINE_SECS)

  def nodes(self, name):
    """Returns the nodes on which the program was started, in turn."""
    return re.findall(rf' {name} started on \S+ \(node (\w+)\)', self.log())

  def wait_for_start(self, name, number=1):
    """Waits until the program has started so often; returns its node."""
    return self.wait(
        lambda: len(self.nodes(name)) >= number and self.nodes(name)[-1],
        f'start {number} of {name}')


def _command(run_dir, *flags):
  return ('-m', 'impala_tf', 'cluster', *_FLAGS, f'--run_dir={run_dir}', *flags)


@contextlib.contextmanager
def _training(run_dir, *flags):
  """Starts the program; yields a `_Run`."""
  path = run_dir.parent / 'output'
  with path.open('w') as output:
    with programs.running(*_command(run_dir, *flags), stdout=output,
                          stderr=output) as process:
      yield _Run(run_dir, process, path)


@pytest.mark.slow
@pytest.mark.parametrize('scheme', [
    '', pytest.param('file://', marks=pytest.mark.nightly)])
def test_without_a_cluster_it_trains_here_to_the_end(tmp_path, scheme):
  run_dir = f'{scheme}{tmp_path}/run'
  # Enough to take longer than what actors say takes to their logs.
  frames = runs.bind('ExperimentConfig.total_frames', 10_000)
  # Else one actor may do it all before the other has begun.
  together = runs.bind('ActorConfig.synchronisation', 'trajectory')
  ran = programs.run(*_command(run_dir, '--num_actors=2', frames, together)[1:],
                     timeout=_DEADLINE_SECS, cwd=tmp_path, check=True)
  assert ran.stdout.startswith(f'Training catch in {run_dir}\n')
  assert '  2 actors with 1 CPU each\n' in ran.stdout
  assert f'Done; evaluate with impala-tf evaluate {run_dir}' in ran.stdout
  assert metrics.read_rows(run_dir)[-1]['frames'] == 10_000
  log_dir = tmp_path / run_directory.logs_path(run_dir)
  for name in ('actor_0', 'actor_1'):
    assert 'sent its first unrolls' in (log_dir / f'{name}.log').read_text()
  assert 'learner started on ' in (log_dir / 'cluster.log').read_text()
  runs.Run(run_dir, None).wait_for_end()


def _check_resumption(run, number, saved, num_learners=1):
  """Waits for a resumption, which lost nothing from before a checkpoint."""
  run.wait(lambda: run.log('learner').count('Resuming from') == number,
           f'resumption {number}')
  updates, frames = map(int, re.findall(
      r'Resuming from \S+/ckpt-(\d+) at (\d+) frames', run.log('learner'))[-1])
  assert updates >= saved > 0
  assert frames == updates * num_learners * programs.CATCH_FRAMES_PER_UPDATE


@pytest.mark.slow
def test_training_outlives_the_nodes_of_actor_and_learner(tmp_path):
  run_dir = tmp_path / 'run'
  with ray_nodes.running(num_nodes=3, num_cpus=2) as nodes:
    with _training(
        run_dir, f'--ray_address={nodes.address}', '--num_actors=3',
        runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.)) as run:
      names = ['learner', 'actor_0', 'actor_1', 'actor_2']
      places = [run.wait_for_start(name) for name in names]
      assert len(set(places)) == 3  # Spread over the nodes.
      run.wait_for_frames(1000)

      # The node of an actor, or of two, is lost.
      assert places[1] != places[0]
      ray_nodes.lose(nodes, places[1])
      run.wait(lambda: 'actor_0 was lost: ' in run.log(), 'the loss')
      for name, place in zip(names, places):
        if place == places[1]:
          assert run.wait_for_start(name, number=2) != place
        else:
          assert len(run.nodes(name)) == 1
      run.wait_for_frames(1000)

      # The node of the learner is lost. The other is full of actors, and there
      # will be room for only one of them.
      saved = run.newest_checkpoint()
      ray_nodes.lose(nodes, places[0])
      assert run.wait_for_start('learner', number=2) not in (places[:2])
      # The lost one may have learned on for a while.
      _check_resumption(run, 1, saved)
      run.wait_for_frames(1000)
      runs.check_rows(run_dir, programs.CATCH_FRAMES_PER_UPDATE)

      start = time.monotonic()
      run.process.send_signal(signal.SIGINT)
      assert run.process.wait(_DEADLINE_SECS) == 130, run.output()
      assert time.monotonic() - start < 30  # Ray takes its time, too.
    assert 'Stopped with a checkpoint of update' in run.output()
    assert run.newest_checkpoint() == run.rows()[-1]['updates']
    run.wait_for_end()


def _last_addresses(run):
  """Returns the addresses of the Reverb servers of both learners."""
  return [re.findall(rf' {name} is at (\S+)', run.log())[-1]
          for name in ('learner', 'learner_1')]


@pytest.mark.nightly
@pytest.mark.timeout(1800)  # Three starts.
def test_two_learners_agree_and_outlive_a_process_and_a_node(tmp_path):
  run_dir = tmp_path / 'run'
  names = ['learner', 'learner_1', 'actor_0', 'actor_1', 'evaluator']
  with ray_nodes.running(num_nodes=3, num_cpus=2) as nodes:
    with _training(
        run_dir, f'--ray_address={nodes.address}', *two_learners.FLAGS,
        '--evaluate', runs.bind('ExperimentConfig.evaluation_episodes', 2),
        runs.bind('ExperimentConfig.evaluation_interval_secs', 1.),
        runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.)) as run:
      places = [run.wait_for_start(name) for name in names]
      assert places[0] != places[1] and len(set(places)) == 3
      run.wait_for_frames(800)
      two_learners.check_equal_parameters(_last_addresses(run), _DEADLINE_SECS)
      for i in range(2):  # Each plays for its own.
        assert f'from {_last_addresses(run)[i]} after' in run.log(f'actor_{i}')
      run.wait(lambda: metrics.read_rows(str(run_dir / 'evaluation')), 'games')

      # The second learner is killed, and all start again.
      saved = run.newest_checkpoint()
      programs.kill(two_learners.pid(run_dir, 1))
      for name in names:
        run.wait_for_start(name, number=2)
      noticed, = re.findall(
          r'learner_1 was killed by SIGKILL(, learner ended with exit code 1)?'
          '; all processes start again, from the last checkpoint: restart 1 of '
          '5', run.log())
      _check_resumption(run, 1, saved, num_learners=2)
      # The other learner has reported it, unless it was too slow.
      assert not noticed or 'has lost learner 1 (' in run.log('learner')
      run.wait_for_frames(800)

      # The node of the first is lost. There is no room for the evaluator then.
      saved, lost = run.newest_checkpoint(), run.nodes('learner')[-1]
      ray_nodes.lose(nodes, lost)
      for name in names[:4]:
        assert run.wait_for_start(name, number=3) != lost
      _check_resumption(run, 2, saved, num_learners=2)
      two_learners.check_equal_parameters(_last_addresses(run), _DEADLINE_SECS)

      run.process.send_signal(signal.SIGINT)
      assert run.process.wait(_DEADLINE_SECS) == 130, run.output()
    assert 'Stopped with a checkpoint of update' in run.output()
    two_learners.check_end(run_dir)
    run.wait_for_end()


@pytest.mark.nightly
def test_driver_that_is_killed_leaves_nothing_and_the_run_can_be_resumed(
    tmp_path):
  run_dir = tmp_path / 'run'
  with ray_nodes.running(num_nodes=1, num_cpus=2) as nodes:
    flags = (f'--ray_address={nodes.address}',
             runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.))
    with _training(run_dir, *flags) as run:
      run.wait(lambda: run.newest_checkpoint() > 0, 'a checkpoint')
      # The learner alone is killed first: it is started again.
      programs.kill(*run.pids('learner'))
      run.wait_for_start('learner', number=2)
      assert ('learner was killed by SIGKILL; all processes start again, from '
              'the last checkpoint: restart 1 of 5') in run.log()
      run.wait_for_frames(400)
      programs.kill(run.process.pid)
      run.wait_for_end()
    saved = run.newest_checkpoint()
    with _training(run_dir, *flags) as run:
      run.wait(lambda: f'ckpt-{saved} at' in run.log('learner'), 'resumption')
      run.wait_for_frames(400)
      run.process.send_signal(signal.SIGTERM)
      assert run.process.wait(_DEADLINE_SECS) == 143, run.output()


@pytest.mark.slow
def test_what_the_learner_complains_of_ends_the_run(tmp_path):
  config = gin_config.load(
      _CONFIG, [flag.partition('=')[2] for flag in _BINDINGS])
  (tmp_path / 'run' / 'checkpoints').mkdir(parents=True)
  (tmp_path / 'run' / 'config.gin').write_text(gin_config.dumps(config))
  (tmp_path / 'run' / 'checkpoints' / 'ckpt-5.index').write_text('damaged')
  with ray_nodes.running(num_nodes=1, num_cpus=2) as nodes:
    with _training(tmp_path / 'run', f'--ray_address={nodes.address}') as run:
      assert run.process.wait(_DEADLINE_SECS) == 2, run.output()
  line = run.output().splitlines()[-1]
  assert 'holds only damaged checkpoints (1)' in line, run.output()
