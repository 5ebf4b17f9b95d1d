"""Tests of faults in the network between a learner and its actors.

A machine is a namespace of the network, and each of its programs sees no other
processes, so that nobody reaches the learner's memory. A third namespace is the
switch between them. That takes the rights of root; without them these tests are
skipped.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from impala_tf.runs import metrics
from tests.fixtures import programs
from tests.fixtures.faults import runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_PORT = 5000
# Each actor plays one of these levels, so that frames by level are frames by
# actor.
_LEVELS = ('tmaze/1', 'tmaze/2')
# Runs a program that sees no other processes; it ends with this one.
_ALONE = ('unshare', '--pid', '--fork', '--kill-child', '--mount-proc')


def _ip(command):
  return subprocess.run(['ip', *command.split()], capture_output=True,
                        check=False).returncode == 0


class _Network:
  """Two machines, `learner` (10.77.0.1) and `actors`, and a switch."""

  def __init__(self):
    prefix = f'faults{os.getpid()}'
    self.learner, self.actors, self._switch = (
        f'{prefix}-{name}' for name in ('learner', 'actors', 'switch'))

  def _connect(self, machine, number):
    """Connects a machine to the switch and gives it an address."""
    port = f'port{number}'
    return all(map(_ip, (
        f'-n {self._switch} link add {port} type veth peer name eth0 '
        f'netns {machine}',
        f'-n {self._switch} link set {port} up',
        f'-n {self._switch} link set {port} master switch',
        f'-n {machine} address add 10.77.0.{number}/24 dev eth0',
        f'-n {machine} link set eth0 up', f'-n {machine} link set lo up')))

  def make(self):
    """Sets the machines up; returns whether that is allowed."""
    return all(map(_ip, (
        f'netns add {self._switch}', f'netns add {self.learner}',
        f'netns add {self.actors}',
        f'-n {self._switch} link add switch type bridge',
        f'-n {self._switch} link set switch up',
        f'netns exec {self.actors} {" ".join(_ALONE)} true'))) and (
            self._connect(self.learner, 1) and self._connect(self.actors, 2))

  def cut(self):
    """Drops all packets silently; returns whether that succeeded."""
    return _ip(f'-n {self._switch} link set port2 nomaster')

  def heal(self):
    return _ip(f'-n {self._switch} link set port2 master switch')

  def remove(self):
    for name in (self.learner, self.actors, self._switch):
      _ip(f'netns delete {name}')


@pytest.fixture(name='network')
def _network():
  network = _Network()
  try:
    if not network.make():
      pytest.skip('network namespaces are not allowed')
    yield network
  finally:
    network.remove()


@contextlib.contextmanager
def _role(machine, output, *arguments):
  """Runs a role on a machine; yields the process of `_ALONE`."""
  with open(output, 'ab') as log:
    process = subprocess.Popen(
        ['ip', 'netns', 'exec', machine, *_ALONE, sys.executable, '-m',
         'impala_tf', 'role', *arguments, f'--address=10.77.0.1:{_PORT}'],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=programs.ROOT)
  try:
    yield process
  finally:
    process.kill()
    process.wait()


def _learner(network, run_dir):
  return _role(
      network.learner, run_dir.with_suffix('.log'), 'learner',
      f'--run_dir={run_dir}', '--config', *programs.CATCH,
      runs.bind('EnvironmentConfig.level', ','.join(_LEVELS)),
      runs.bind('ActorConfig.num_actors', 2),
      runs.bind('ActorConfig.num_envs', 1), runs.ENDLESS,
      runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.))


@contextlib.contextmanager
def _actors(network, tmp_path):
  with contextlib.ExitStack() as stack:
    yield [stack.enter_context(_role(
        network.actors, tmp_path / f'actor_{task}.log', 'actor',
        f'--task={task}')) for task in range(2)]


def _frames(run_dir):
  """Lists the frames learned from, actor by actor."""
  rows = metrics.read_rows(str(run_dir))
  return [rows[-1][f'level/{level}/frames'] if rows else 0 for level in _LEVELS]


def _wait_for_frames(run_dir, number=200):
  """Waits for `number` more frames of each actor."""
  before = _frames(run_dir)
  programs.wait_until(
      lambda: min(np.subtract(_frames(run_dir), before)) >= number,
      f'frames of both actors since {before}', runs.DEADLINE_SECS)


def _pid(process):
  """Returns the id of the role that a process of `_ALONE` runs."""
  path = f'/proc/{process.pid}/task/{process.pid}/children'
  return int(pathlib.Path(path).read_text())


def test_network_is_cut_for_a_while(tmp_path, fault, network):
  cut_secs = 60. if fault.is_chaos else 5.
  run_dir = tmp_path / 'run'
  growth = []
  with _learner(network, run_dir) as learner, _actors(
      network, tmp_path) as actors:
    _wait_for_frames(run_dir)
    assert [bool(runs.parameter_memories(_pid(process))) for process in (
        learner, *actors)] == [True, *[False] * len(actors)]
    for _ in range(fault.tries):
      _wait_for_frames(run_dir)
      before = [runs.memory_mib(_pid(process)) for process in actors]
      assert network.cut()
      time.sleep(cut_secs)
      growth += [runs.memory_mib(_pid(process)) - was
                 for process, was in zip(actors, before)]
      assert network.heal()
      with fault.recovery():
        _wait_for_frames(run_dir, 1)
      assert all(process.poll() is None for process in (learner, *actors))
  said = ''.join((tmp_path / f'actor_{task}.log').read_text()
                 for task in range(2))
  assert max(growth) < 50
  fault.report(
      f'network cut for {cut_secs:.0f} s (actors grew by {max(growth):.0f} MiB '
      f'at most, and started over {said.count("starting over")} times)')


def test_learner_is_killed_and_actors_elsewhere_are_there_again(
    tmp_path, fault, network):
  run_dir = tmp_path / 'run'
  start_secs = []
  with _actors(network, tmp_path) as actors, contextlib.ExitStack() as stack:
    learner = stack.enter_context(_learner(network, run_dir))
    for _ in range(fault.tries):
      _wait_for_frames(run_dir)
      programs.kill(_pid(learner))
      learner.wait()
      # Recovery counts from when the next learner serves.
      log = run_dir.with_suffix('.log')
      said = log.stat().st_size
      start = time.monotonic()
      learner = stack.enter_context(_learner(network, run_dir))
      programs.wait_until(
          lambda: b'Resuming from' in log.read_bytes()[said:], 'a learner',  # noqa: B023
          runs.DEADLINE_SECS)
      start_secs.append(time.monotonic() - start)
      with fault.recovery():
        _wait_for_frames(run_dir, 1)
      assert all(process.poll() is None for process in (learner, *actors))
  # Actors import TensorFlow anew, as the learner did when it started.
  assert max(fault.recovery_secs) < max(40, 4 * max(start_secs))
  fault.report('kill -9 of the learner, its actors on another machine')
