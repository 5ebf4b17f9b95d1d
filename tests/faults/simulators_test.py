"""A user's simulators: none stays after a run, and failures are reported.

They are programs in separate sessions, with a directory each, as engines of
games are.
"""

import signal

import pytest

from impala_tf.runtime import ports
from tests.fixtures import programs

_MODULE = """
import os, pathlib, shutil, subprocess, sys, tempfile
import gymnasium
import numpy as np

class Simulator(gymnasium.Env):
  observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)
  home = pathlib.Path(__file__).parent

  def __init__(self):
    self.directory = tempfile.mkdtemp(prefix='scratch', dir=self.home)
    self.process = subprocess.Popen(
        [sys.executable, '-c', 'import time; time.sleep(1000)', str(self.home)],
        start_new_session=True)

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed)
    self.num_steps = 0
    return np.zeros(3, np.float32), {}

  def step(self, action):
    self.num_steps += 1
    return np.zeros(3, np.float32), 1., self.num_steps == 10, False, {}

  def close(self):
    self.process.kill()
    shutil.rmtree(self.directory)

class Licensed(Simulator):
  # One licence is all there is.
  def __init__(self):
    with open(self.home / 'made', 'a') as made:
      made.write('once ')
    os.close(os.open(self.home / 'licence', os.O_CREAT | os.O_EXCL))
    super().__init__()

  def close(self):
    super().close()
    (self.home / 'licence').unlink()

class Leaves(Simulator):
  def reset(self, *, seed=None, options=None):
    sys.exit()

class Refused(Simulator):
  def step(self, action):
    raise ConnectionRefusedError(111, 'Connection refused')

for kind in Simulator, Licensed, Leaves, Refused:
  gymnasium.register(f'{kind.__name__}-v0', kind)
"""
_BINDINGS = {
    'EnvironmentConfig.level': 'gym/Simulator-v0', 'AgentConfig.torso': 'mlp',
    'AgentConfig.hidden_size': 8, 'ActorConfig.num_actors': 1,
    'ActorConfig.num_envs': 4, 'LearnerConfig.batch_size': 4,
    'LearnerConfig.unroll_length': 5, 'ExperimentConfig.total_frames': 400,
    'ExperimentConfig.log_interval_secs': 0.2}
_ENDLESS = {'ExperimentConfig.total_frames': 10**9}
_A3C = {'ExperimentConfig.algorithm': 'a3c', 'AsyncConfig.num_workers': 2,
        'ImpalaConfig.correction': 'none'}

# On a busy machine actors, which yield to all others, take minutes to start.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
_START_SECS = 400.


@pytest.fixture(name='home')
def _home(tmp_path):
  """Writes the user's file; kills what a failed test has left."""
  (tmp_path / 'simulator.py').write_text(_MODULE)
  yield tmp_path
  for pid in programs.pids(tmp_path):
    programs.kill(pid)


def _arguments(home, **options):
  return [
      'configs/impala.gin', f'--import={home}/simulator.py',
      *(f'--gin_binding={name} = {value!r}'
        for name, value in {**_BINDINGS, **options}.items())]


def _train(home, **options):
  return programs.running(
      '-m', 'impala_tf', 'train', f'--run_dir={home}/run',
      *_arguments(home, **options))


def _play(process, home, number):
  """Waits until the simulators of a run play."""
  log = home / 'run' / 'metrics.jsonl'
  programs.wait_until(
      lambda: process.poll() is not None or (
          log.exists() and log.read_text() and
          len(programs.pids(home)) == number), 'simulators that play',
      _START_SECS)
  assert process.poll() is None, process.communicate()


def _left(home):
  return programs.pids(home), list(home.glob('scratch*'))


def _end(process):
  """Waits for the end of a run that succeeds; returns its errors."""
  output, errors = process.communicate()
  assert process.returncode == 0, output + errors
  return errors


@pytest.mark.parametrize('options', [
    {}, {'ActorConfig.env_processes': 2},
    {'ExperimentConfig.in_process': True},
    {'ActorConfig.synchronisation': 'step', 'ActorConfig.env_processes': 2},
    _A3C], ids=str)
def test_all_are_closed_when_the_run_is_done(home, options):
  with _train(home, **options) as process:
    _end(process)
  assert _left(home) == ([], [])


@pytest.mark.parametrize('options, number', [
    ({}, 2), ({'ActorConfig.env_processes': 1}, 3),
    ({'ExperimentConfig.in_process': True}, 2)], ids=str)
def test_one_licence_is_enough_for_one_environment(home, options, number):
  with _train(home, **{'EnvironmentConfig.level': 'gym/Licensed-v0',
                       'ActorConfig.num_envs': 1, **options}) as process:
    assert _end(process) == ''
  # By the learner and, with a process for it, the actor, for its spaces alone.
  assert (home / 'made').read_text().split() == ['once'] * number


@pytest.mark.parametrize('options', [
    {}, {'ActorConfig.env_processes': 2},
    {'ActorConfig.synchronisation': 'step'}, _A3C], ids=str)
def test_all_are_closed_after_ctrl_c(home, options):
  with _train(home, **_ENDLESS, **options) as process:
    _play(process, home, 2 if options is _A3C else 4)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
  assert process.returncode == 130, output + errors
  assert _left(home) == ([], [])


def test_all_are_closed_after_the_supervisor_was_killed(home):
  with _train(home, **_ENDLESS) as process:
    _play(process, home, 4)
    process.kill()
    programs.wait_until(lambda: _left(home) == ([], []), 'the end of all')


def test_actor_by_hand_closes_all_at_sigterm(home):
  address = f'--address=localhost:{ports.choose()}'
  learner, actor = (
      ('-m', 'impala_tf', 'role', role, address, f'--import={home}/simulator.py'
       ) for role in ('learner', 'actor'))
  with programs.running(*learner, f'--run_dir={home}/run', *[
      f'--config={argument}' if argument.endswith('.gin') else argument
      for argument in _arguments(home, **_ENDLESS)]) as learner:
    with programs.running(*actor) as actor:
      _play(actor, home, 4)
      actor.terminate()
      assert actor.wait(programs.DEADLINE_SECS) == 143
      assert _left(home) == ([], [])


def test_evaluation_closes_all_at_sigterm(home):
  with _train(home) as process:
    _end(process)
  with programs.running(
      '-m', 'impala_tf', 'evaluate', f'{home}/run',
      f'--import={home}/simulator.py', '--episodes=1000000', '--num_envs=3'
  ) as process:
    programs.wait_until(
        lambda: len(programs.pids(home)) == 3, 'simulators', _START_SECS)
    process.terminate()
    process.communicate()
  assert process.returncode == 143 and _left(home) == ([], [])


@pytest.mark.parametrize('level, options, code, words', [
    ('Leaves', {}, 2, 'gym/Leaves-v0 cannot be reset (to observation, info): '),
    ('Leaves', {'ExperimentConfig.in_process': True}, 2,
     'gym/Leaves-v0 cannot be reset (to observation, info): '),
    ('Refused', {}, 1, 'actor_0 ended with exit code 1, twice before it has '
     'done anything: gym/Refused-v0: environment 0 (step 1) failed: '),
    ('Refused', {'ActorConfig.env_processes': 2}, 1,
     'twice before it has done anything: environment'),
    ('Refused', _A3C, 1, 'twice before it has done anything: gym/Refused-v0'),
    ('Refused', {'ExperimentConfig.in_process': True}, 1,
     'gym/Refused-v0: environment 0 (step 1) failed: ')])
def test_failure_of_an_environment_ends_the_run_with_its_line(
    home, level, options, code, words):
  options = {'EnvironmentConfig.level': f'gym/{level}-v0', **options}
  with _train(home, **options) as process:
    output, errors = process.communicate()
  assert process.returncode == code, output + errors
  line, = (line for line in errors.splitlines() if line.startswith('error: '))
  assert words in line
  assert f'{home}/simulator.py, line ' in line
  assert _left(home) == ([], [])
