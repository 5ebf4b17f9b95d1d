"""Roles as separate programs, each started by hand."""

import contextlib
import os
import re
import signal
from unittest import mock

import pytest

from impala_tf.cli import program
from impala_tf.cli import role as role_lib
from impala_tf.cli.roles import flags
from impala_tf.envs import environment
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runtime import ports
from tests.fixtures import programs
from tests.fixtures.faults import runs

_CONFIG = f'--config={programs.CATCH[0]}'
_BINDINGS = (*programs.CATCH[1:],
             '--gin_binding=ExperimentConfig.evaluation_interval_secs = 0.2',
             '--gin_binding=ExperimentConfig.evaluation_episodes = 3')


class _Role:
  """A running role and what it says."""

  def __init__(self, process, log):
    self.process = process
    self._log = log

  def log(self):
    return self._log.read_text()

  def wait_for(self, words, number=1):
    """Waits for so many lines that have these words; returns that one."""

    def found():
      lines = [line for line in self.log().splitlines() if words in line]
      assert self.process.poll() is None or len(lines) >= number, self.log()
      return len(lines) >= number and lines[number - 1]

    return programs.wait_until(found, words, runs.DEADLINE_SECS)

  def stop(self, signum):
    """Sends a signal; returns the exit code."""
    self.process.send_signal(signum)
    return self.process.wait(runs.DEADLINE_SECS)


@pytest.mark.parametrize('role, host, flags_, visible', [
    ('learner', 'localhost', ['--supervised'], '7'), ('actor', 'x', [], ''),
    ('learner', '10.0.0.1', [], '7'),
    ('learner', '10.0.0.1', ['--supervised'], '5,7')])
def test_learners_share_gpus_that_nobody_has_shared_out(
    monkeypatch, role, host, flags_, visible):
  monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '5,7')
  role_lib.choose_gpus(flags.make_parser('').parse_args([
      role, '--task=1', f'--address={host}:3',
      f'--learners={host}:1,{host}:2', *flags_]))
  assert os.environ['CUDA_VISIBLE_DEVICES'] == visible


@pytest.fixture(name='start')
def _start(tmp_path):
  """Starts a role; its words go to a file of this name."""
  with contextlib.ExitStack() as stack:

    def start(name, *arguments):
      path = tmp_path / f'{name}.log'
      return _Role(stack.enter_context(runs.role(path, *arguments)), path)

    yield start


def _rows(directory):
  return metrics.read_rows(str(directory))


def _wait_for_rows(directory, number):
  programs.wait_until(lambda: len(_rows(directory)) >= number,
                      f'{number} rows in {directory}', runs.DEADLINE_SECS)


@pytest.mark.slow
def test_peers_come_first_and_outlive_their_learner(start, tmp_path):
  port = ports.choose()
  address, run_dir = f'localhost:{port}', tmp_path / 'run'
  output = tmp_path / 'evaluation'
  actor = start('actor', 'actor', f'--address={address}', '--task=3')
  evaluator = start('evaluator', 'evaluator', f'--address={address}',
                    f'--output={output}')
  stranger = start('stranger', 'actor', f'--address={address}', _CONFIG)
  for role, name in ((actor, 'actor 3'), (evaluator, 'evaluator')):
    assert role.wait_for('waiting for').startswith(
        f'{name}: waiting for the learner at {address} (0 of 600 s)')

  where = (f'--address={address}', f'--run_dir={run_dir}')
  learner = start('learner', 'learner', _CONFIG, *_BINDINGS, *where)
  learner.wait_for(f'port {port} is open to every machine')
  learner.wait_for(f'actor --address={address} --task=N, N = 0 to 0')
  learner.wait_for(f'waiting for unrolls that actors send to {address} (0 of')
  assert actor.wait_for('got the config').startswith(
      'actor 3: got the config of catch (')
  actor.wait_for('sent its first unrolls')
  learner.wait_for('got the first unrolls after')
  assert gin_config.load(str(run_dir / 'config.gin')) == gin_config.load(
      programs.CATCH[0], [b.partition('=')[2] for b in _BINDINGS])
  # The config that was asked for is not the learner's; the message says so.
  assert stranger.process.wait(runs.DEADLINE_SECS) == 2
  line, = [line for line in stranger.log().splitlines() if 'error: ' in line]
  assert f'the learner at {address} has another config than configs/' in line
  assert 'LearnerConfig.batch_size (32, now 8)' in line
  _wait_for_rows(output, 2)
  for name, flag, words in (
      ('second', f'--output={output}', 'another evaluator writes to'),
      ('lost', f'--run_dir={tmp_path / "typo"}', 'typo holds no run; correct')):
    refused = start(name, 'evaluator', f'--address={address}', flag)
    assert refused.process.wait(runs.DEADLINE_SECS) == 2
    assert words in refused.log()

  assert learner.stop(signal.SIGTERM) == 143
  assert f'the same command with --run_dir={run_dir} resumes' in learner.log()
  last = _rows(run_dir)[-1]
  assert run_directory.newest_checkpoint(str(run_dir)) == last['updates']

  learner = start('resumed', 'learner', *where)
  learner.wait_for(f'Resuming catch in {run_dir}')
  learner.wait_for('got the first unrolls after')
  _wait_for_rows(output, len(_rows(output)) + 2)
  waits = f'waiting for the learner at {address} (0 of 600 s)'
  num_waits = evaluator.log().count(waits)
  assert learner.stop(signal.SIGHUP) == 129  # Its terminal is closed.
  assert _rows(run_dir)[-1]['frames'] > last['frames']
  actor.wait_for(f'lost the learner at {address}')
  actor.wait_for(waits, number=2)
  # It may be about to start over.
  assert actor.stop(signal.SIGTERM) in (143, -signal.SIGTERM)
  # Not within Python's own start, which Ctrl-C would end with 1.
  evaluator.wait_for(waits, num_waits + 1)
  assert evaluator.stop(signal.SIGINT) == 130
  for row in runs.check_rows(output, programs.CATCH_FRAMES_PER_UPDATE):
    assert row['episodes'] == 3 and row['episode_frames'] == 9
    assert -1 <= row['episode_return'] <= 1 and row['standard_error'] >= 0
  assert list((output / 'tensorboard').glob('events.out.tfevents.*'))


@pytest.mark.slow
def test_learner_comes_first_and_ends_with_all_frames(start, tmp_path):
  address = f'localhost:{ports.choose()}'
  learner = start(
      'learner', 'learner', f'--address={address}', _CONFIG, *_BINDINGS,
      f'--run_dir={tmp_path / "run"}',
      '--gin_binding=ExperimentConfig.total_frames = 4000')
  learner.wait_for('Started replay server')
  start('actor', 'actor', f'--address={address}')
  assert learner.process.wait(runs.DEADLINE_SECS) == 0
  log = learner.log()
  assert 'Done; evaluate with impala-tf evaluate' in log
  assert re.search(r'^return .* frames \(\d+\.\d%\) · .* · lag', log,
                   re.MULTILINE)
  assert _rows(tmp_path / 'run')[-1]['frames'] == 4000
  assert run_directory.newest_checkpoint(str(tmp_path / 'run')) == 100


def test_supervised_actor_leaves_starting_over_to_its_supervisor(monkeypatch):
  """It would stay on its core from the start, and count no other."""

  def lose(args):
    raise ConnectionError(f'{args.address} is gone')

  executed = []
  monkeypatch.setattr(os, 'execv', lambda *command: executed.append(command))
  monkeypatch.setattr(  # Else it ends with pytest's standard input.
      role_lib.peers, 'playing', lambda supervised: contextlib.nullcontext())
  by_hand = ['actor', '--address=localhost:1']
  for arguments in [*by_hand, '--supervised', '--core=0'], by_hand:
    assert not executed
    assert role_lib.run(flags.make_parser('').parse_args(arguments),
                        {'actor': lose}, grace_secs=0.) == 1
  assert len(executed) == 1


def test_simulator_that_fails_ends_its_role_with_its_trace_and_a_line(capsys):

  def fail(args):
    try:
      raise OSError('no such map')  # Not of the connection to the learner.
    except OSError as error:
      raise environment.SimulatorError('gym/Mine-v0 failed') from error

  args = flags.make_parser('').parse_args(
      ['evaluator', '--address=localhost:1', '--output=/tmp'])
  assert program.run(lambda: role_lib.run(args, {'evaluator': fail})) == 1
  *trace, line = capsys.readouterr().err.splitlines()
  assert trace[-1] == 'OSError: no such map'
  assert line == 'error: gym/Mine-v0 failed'


def test_full_disk_ends_a_learner_with_a_line(capsys):
  args = flags.make_parser('').parse_args(
      ['learner', '--address=localhost:1', _CONFIG, '--run_dir=/tmp/run'])
  learn = mock.Mock(side_effect=OSError('no room'))
  assert program.run(lambda: role_lib.run(args, {'learner': learn})) == 1
  assert capsys.readouterr().err == 'error: no room\n'


@pytest.mark.slow
@pytest.mark.parametrize('role, flags_, peer', [
    ('actor', ['--task=1'], 'the learner at'),
    ('evaluator', ['--output=/tmp'], 'the learner at'),
    ('learner', [_CONFIG, '--run_dir={}/run'], 'unrolls that actors send to')])
def test_peer_that_does_not_come_is_named(tmp_path, role, flags_, peer):
  address = f'localhost:{ports.choose()}'
  ran = programs.run(
      'impala_tf', 'role', role, f'--address={address}', '--wait_secs=2',
      *(flag.format(tmp_path) for flag in flags_), timeout=runs.DEADLINE_SECS)
  assert ran.returncode == 1
  assert f'waiting for {peer} {address} (0 of 2 s)' in ran.stdout
  assert f'error: waited 2 s for {peer} {address}, in vain' in ran.stderr
  assert '--wait_secs' in ran.stderr and 'Traceback' not in ran.stderr
  assert not list(tmp_path.rglob('ckpt-*'))
