"""Refusals, files and deaths of the program `cli.train`."""

import os
import re
import signal
import time

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.cli import train
from impala_tf.roles import local_run
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runtime import ports
from tests.fixtures import fake_wandb
from tests.fixtures import no_ipv6
from tests.fixtures import programs
from tests.fixtures.faults import runs


def _train(run_dir, *arguments, **options):
  return programs.run(
      'impala_tf', 'train', *programs.CATCH, f'--run_dir={run_dir}',
      *arguments, timeout=runs.DEADLINE_SECS, **options)


def _training(run_dir, *arguments):
  """Starts a run, or resumes it; yields a `runs.Run`."""
  return runs.starting(run_dir, *programs.CATCH, *arguments)


def _all_pids(run_dir):
  return programs.pids(f'--run_dir={run_dir}')


# Bad input.


@pytest.mark.parametrize('arguments, words', [
    ([runs.bind('EnvironmentConfig.level', 'atari/pnog')],
     "no level atari/pnog; did you mean atari/pong"),
    ([runs.bind('AgentConfig.torso', 'shalow')],
     "torso must be one of .* but is 'shalow'; did you mean 'shallow'.*one of "
     'your own is known once .*--import=FILE.py'),
    (['--import=~/no_such.py'], '--import=/.*/no_such.py: there is no such'),
    ([runs.bind('EnvironmentConfig.level', 'atari57')],
     '57 levels .* 1 actor process with 4 .*num_envs to 57 at least'),
    ([runs.bind('LearnerConfig.batch_size', 0)],
     'LearnerConfig.batch_size must be at least 1, but is 0'),
    (['--profile', runs.bind('ActorConfig.synchronisation', 'step'),
      runs.bind('ActorConfig.num_envs', 8)],
     "--profile .*ActorConfig.synchronisation = 'step' there are none; leave"),
    (['--profile', runs.bind('ExperimentConfig.algorithm', 'a3c'),
      runs.bind('ImpalaConfig.correction', 'none')],
     "with ExperimentConfig.algorithm = 'a3c' .*; leave it out"),
    (['--port=5000', runs.bind('ExperimentConfig.in_process', True)],
     '--port needs processes of their own'),
    (['--port=65536'], '--port: port 65536 cannot be used.*; choose another')])
def test_bad_value_is_refused_and_nothing_is_made(
    refused, tmp_path, arguments, words):
  line = refused(train.main, *programs.CATCH, f'--run_dir={tmp_path / "run"}',
                 *arguments)
  assert re.search(words, line), line
  assert not any(tmp_path.iterdir())


def test_slow_environments_are_waited_for():
  """One may hang, and its successor take as long to start."""
  assert local_run.wait_secs(config_lib.Config(actor=config_lib.ActorConfig(
      env_timeout_secs=1000.))) == 2600


@pytest.mark.slow
def test_environment_that_only_its_processes_know_is_refused(tmp_path):
  ran = _train(tmp_path / 'run',
               runs.bind('EnvironmentConfig.level', 'gym/CartPoel-v1'))
  assert 'gym/CartPoel-v1 cannot be made' in programs.error_line(ran)
  assert not any(tmp_path.iterdir())


# Real runs.


@pytest.mark.timeout(900)
def test_whole_run_writes_all_it_promises(tmp_path, monkeypatch):
  run_dir = tmp_path / 'new' / 'run'  # Parents are made, too.
  temporary = tmp_path / 'temporary'
  temporary.mkdir()
  monkeypatch.setenv('TMPDIR', str(temporary))
  total = 1510  # No multiple of an update's frames: rounded up.
  port = ports.choose()
  arguments = [runs.bind('ActorConfig.num_actors', 2),
               runs.bind('ExperimentConfig.total_frames', total),
               runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.)]
  ran = _train(run_dir, f'--port={port}', *arguments, check=True)
  assert 'restart' not in ran.stderr  # Actors that lost a learner that is done.
  first, actors, _, threads, network, *progress, last = ran.stdout.splitlines()
  assert first == f'Training catch in {run_dir}'
  assert actors == '  2 actor processes (as configured)'
  assert re.fullmatch(r'  \d+ learner threads? \(.* 25% of .*\)', threads)
  assert network.startswith(f'  port {port} is open to every machine that ')
  assert network.endswith('; as asked for')
  assert last == f'Done; evaluate with impala-tf evaluate {run_dir}'
  assert ' frames (' in progress[-1] and ' · lag ' in progress[-1]

  rows = runs.check_rows(run_dir, programs.CATCH_FRAMES_PER_UPDATE)
  for row in rows:
    assert {'frames', 'updates', 'secs', 'frames_per_sec', 'policy_lag',
            'policy_lag_max', 'learning_rate', 'gradient_norm', 'entropy',
            'rho/mean', 'rho/clipped_share', 'kl_behaviour_target',
            'explained_variance', 'queue_occupancy', 'learner_wait_share',
            'loss/total'} <= row.keys()
    assert 0 <= row['policy_lag'] <= row['policy_lag_max'] <= row['updates']
    assert 0 <= row['queue_occupancy'] <= 1
    assert 0 <= row['learner_wait_share'] <= 1
    if row['episodes']:
      assert -1 <= row['episode_return'] <= 1 and row['episode_steps'] == 9
  # 16 unrolls in the queue, a batch of 8 ready, 2 in flight and 8 being played
  # are 34, or five updates; parameters may be late by a few more. A row of few
  # updates has no such bound: an actor may wait for a core while another plays
  # on.
  assert np.average(
      [row['policy_lag'] for row in rows],
      weights=np.diff([row['updates'] for row in rows], prepend=0)) <= 10
  assert rows[-1]['episodes'] > 0
  assert rows[-1]['frames'] == 1520
  for name in ('secs', 'episodes'):
    values = [row[name] for row in rows]
    assert values == sorted(values), name

  config = gin_config.load(str(run_dir / 'config.gin'))
  bindings = [a[len('--gin_binding='):] for a in
              (*programs.CATCH[1:], *arguments)]
  assert config == gin_config.load('configs/catch.gin', bindings)
  logs = {path.name for path in (run_dir / 'logs').iterdir()}
  assert logs == {'learner.log', 'actor_0.log', 'actor_1.log'}
  assert list((run_dir / 'tensorboard').glob('events.out.tfevents.*'))
  checkpoints = {path.stem for path in run_dir.glob('checkpoints/ckpt-*.index')}
  assert 'ckpt-38' in checkpoints
  assert len(checkpoints) <= config.experiment.checkpoints_to_keep
  assert not _all_pids(run_dir)
  assert not list(temporary.iterdir())


@pytest.mark.slow
def test_profile_is_recorded_and_shows_where_the_time_went(tmp_path):
  ran = _train(tmp_path, '--profile',
               runs.bind('ExperimentConfig.total_frames', 20_000), check=True)
  for hop in ('stepping', 'inference', 'waiting for weights',
              'blocked on the queue', 'in the queue', 'batching', 'learning'):
    assert hop in ran.stdout
  # The file that TensorBoard's profiler shows.
  assert list(tmp_path.glob('tensorboard/plugins/profile/*/*.xplane.pb'))


# A run without an end, and with a checkpoint a second.
_LONG = (runs.bind('ExperimentConfig.total_frames', 100_000_000),
         runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.),
         runs.bind('ExperimentConfig.evaluation_interval_secs', 0.2),
         runs.bind('ExperimentConfig.evaluation_episodes', 2))


def _kill_and_wait_for_another_actor(run, pid):
  """Kills the actor, or one that it needs, and waits until another plays."""
  log = run.run_dir / 'logs' / 'actor_0.log'

  def num_played():
    return log.read_text().count('sent its first unrolls')

  before = num_played()
  programs.kill(pid)
  # More frames alone may still be of the old one.
  run.wait(lambda: num_played() > before, 'a new actor')
  run.wait_for_frames()


def _press_ctrl_c(run):
  """Checks that all ends within 10 s, with a checkpoint of all learning."""
  start = time.monotonic()
  code, text = run.interrupt()
  assert time.monotonic() - start < 10
  assert code == 130
  assert f'--run_dir={run.run_dir} resumes' in text
  assert 'restart 1 of 5' in text  # Of the actor that was killed.
  assert not _all_pids(run.run_dir)
  assert run.newest_checkpoint() == run.row()['updates']
  return text


def _is_private(run):
  """Returns whether all processes are in one private network."""
  pids = _all_pids(run.run_dir)
  networks = {os.readlink(f'/proc/{pid}/ns/net') for pid in pids}
  assert len(pids) == 4 and len(networks) == 1  # With train.sh's.
  return networks != {os.readlink('/proc/self/ns/net')}


def _check_continuation(rows, stopped):
  """Checks that rows go on after the row of the interruption."""
  resumed = rows[rows.index(stopped) + 1]
  assert resumed['learning_rate'] < stopped['learning_rate']
  assert resumed['secs'] > stopped['secs']
  assert resumed['best_episode_return'] >= stopped['best_episode_return']
  assert resumed['episodes'] < stopped['episodes']  # That window starts anew.


@pytest.mark.slow
def test_interrupted_run_goes_on_and_a_killed_one_saves(tmp_path):
  with _training(tmp_path, '--evaluate', *_LONG) as run:
    # By then 100 episodes have ended and a best return is known.
    run.wait_for_frames(1500)
    actor, = run.pids('actor')
    _kill_and_wait_for_another_actor(run, actor)
    says_private = _is_private(run)
    run.wait(lambda: metrics.read_rows(tmp_path / 'evaluation'),
             'an evaluation')
    run.wait_for_frames()
    output = _press_ctrl_c(run)
  assert ' · evaluated ' in output
  assert ('a private network: no other machine' in output) == says_private
  assert ('is open to every machine' in output) != says_private

  stopped, saved = run.row(), run.newest_checkpoint()
  with _training(tmp_path, *_LONG) as run:
    line = f'Resuming from {tmp_path}/checkpoints/ckpt-{saved} '
    run.wait(lambda: line in run.log(), line)
    run.wait(lambda: run.newest_checkpoint() > saved, 'another checkpoint')
    _check_continuation(run.check_rows(), stopped)
    # It plays other games than before.
    assert programs.pids(f'--run_dir={tmp_path}', f'--seed={saved * 10_000}')
    run.process.kill()  # Children end by themselves, and the learner saves.
    run.wait_for_end()
    assert run.newest_checkpoint() == run.row()['updates']


@pytest.mark.slow
@pytest.mark.parametrize('in_process, signals', [
    (False, (signal.SIGTERM, signal.SIGTERM)),  # As `timeout` sends it.
    (True, (signal.SIGHUP, signal.SIGTERM))])  # As systemd.
def test_request_to_stop_that_arrives_twice_is_one(
    tmp_path, in_process, signals):
  with _training(tmp_path, *_LONG, runs.bind(
      'ExperimentConfig.in_process', in_process)) as run:
    run.wait_for_frames()
    for signum in signals:
      run.process.send_signal(signum)
    code, text = run.end()
  assert code == 128 + signals[0], text
  assert f'--run_dir={tmp_path} resumes' in text
  assert run.newest_checkpoint() == run.row()['updates']


@pytest.mark.slow
@no_ipv6.NEEDED
def test_run_in_a_strange_shell_outlives_its_reader_and_is_evaluated(tmp_path):
  nowhere = str(tmp_path / 'nowhere')
  variables = {
      'HOME': nowhere, 'TMPDIR': nowhere, 'PYTHONIOENCODING': 'ascii',
      'OMP_NUM_THREADS': '1',
      'CUDA_VISIBLE_DEVICES': '', 'https_proxy': 'http://127.0.0.1:9'}
  run_dir = tmp_path / 'try[1] ü:*?\\'
  with programs.running(
      '-m', 'tests.fixtures.no_ipv6', '-m', 'impala_tf', 'train',
      *programs.CATCH, f'--run_dir={run_dir}',
      runs.bind('ExperimentConfig.total_frames', 4000),
      variables=variables) as run:
    while not run.stdout.readline().startswith('return '):
      assert run.poll() is None, run.stderr.read()
    run.stdout.close()
    assert run.wait(runs.DEADLINE_SECS) == 0
    assert run.stderr.read() == (
        'standard output cannot be written (Broken pipe); the program goes '
        'on\n')
  ran = programs.run(
      'impala_tf', 'evaluate', run_dir, '--episodes=2', variables=variables,
      timeout=runs.DEADLINE_SECS, check=True)
  assert 'checkpoint              ckpt-100\n' in ran.stdout


@pytest.mark.slow
def test_killed_environment_process_costs_its_actor_only(tmp_path):
  with _training(
      tmp_path, *_LONG, runs.bind('ActorConfig.env_processes', 2)) as run:
    run.wait_for_frames()
    actor, = run.pids('actor')
    first, _ = programs.children('spawn_main', [actor])
    _kill_and_wait_for_another_actor(run, first)
    log = (tmp_path / 'logs' / 'actor_0.log').read_text()
    assert re.search(r'environment [0-3] \(catch\): its process was killed by '
                     'SIGKILL', log)
    assert 'Traceback' not in log
    _press_ctrl_c(run)


@pytest.mark.slow
def test_catch_is_solved_through_the_real_processes(tmp_path):
  programs.run('impala_tf', 'train', 'configs/catch.gin',
               f'--run_dir={tmp_path}', timeout=500, check=True)
  # The mean of three rows: three misses in the 100 episodes of one row would
  # already be too many.
  last = metrics.read_rows(tmp_path)[-3:]
  assert np.mean([row['episode_return'] for row in last]) >= 0.95


@pytest.mark.slow
def test_tracked_run_is_sent_whole(tmp_path):
  calls = tmp_path / 'calls.jsonl'
  path = os.pathsep.join([fake_wandb.install(tmp_path / 'packages'),
                          str(programs.ROOT)])
  run_dir = tmp_path / 'run'
  ran = _train(
      run_dir, '--track', runs.bind('ExperimentConfig.total_frames', 2000),
      runs.bind('ExperimentConfig.in_process', True), check=True,
      variables={'PYTHONPATH': path, 'WANDB_FAKE_CALLS': str(calls)})
  assert f'see {run_dir}/logs/tracker.log' in ran.stdout
  noted = fake_wandb.read_calls(calls)
  rows = metrics.read_rows(str(run_dir))
  assert [what['frames'] for name, what in noted if name == 'log'] == [
      row['frames'] for row in rows]
  assert noted[-1] == ['finish', None]
