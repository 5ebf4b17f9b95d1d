"""Settings, fixtures and options that all tests share."""

import atexit
import contextlib
import importlib.util
import os
import random
import sys
import time

import numpy as np
import pytest

import impala_tf  # noqa: F401  Has switches for TensorFlow, too.
from impala_tf import config as config_lib
from impala_tf.envs import gym
from impala_tf.roles import beginning

_FIRST_TIER = 'not slow and not soak'  # As in pyproject.toml.

# Before TensorFlow is imported: one thread, since the tests already run in as
# many processes as there are cores.
os.environ.setdefault('TF_NUM_INTRAOP_THREADS', '1')
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')
gym.draw_without_display()  # Before a test imports a simulator by itself.

# Explains failed assertions in modules that tests share, too.
pytest.register_assert_rewrite('tests.faults', 'tests.fixtures')


def _init_in_one_line(error, *arguments):
  ValueError.__init__(error, *arguments)
  assert '\n' not in str(error), error


config_lib.UserError.__init__ = _init_in_one_line  # Whoever raises one.


@pytest.fixture(autouse=True)
def fixed_seeds():
  """Gives each test the same random numbers, whatever ran before it."""
  random.seed(0)
  np.random.seed(0)
  if 'tensorflow' in sys.modules:  # Not imported for tests that do not use it.
    sys.modules['tensorflow'].random.set_seed(0)


@pytest.fixture(autouse=True)
def determinism_ended():
  """Undoes what a run in one process has switched on for the whole process.

  TensorFlow has no public way back, and some tests compile gradients with XLA
  that have no deterministic kernel.
  """
  if 'tensorflow' in sys.modules:
    from tensorflow.python.framework import config as tf_config
    tf_config.disable_op_determinism()


_servers = []
atexit.register(_servers.clear)


@pytest.fixture(scope='module')
def servers_stay():
  """Keeps Reverb's servers running until the process ends.

  A thread that waits for a queue cannot be ended. Without its server it would
  look for the server over and over, and slow down all later tests.
  """
  from impala_tf.core import queue as queue_lib
  make_server = queue_lib.make_server

  def make_and_keep(*arguments, **kwargs):
    _servers.append(make_server(*arguments, **kwargs))
    return _servers[-1]

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(queue_lib, 'make_server', make_and_keep)
    yield


@pytest.fixture(scope='module')
def fake_deepmind_lab(tmp_path_factory):
  """Replaces the simulator by its stand-in, and returns that module."""
  from tests.fixtures import fake_deepmind_lab as module
  programs = tmp_path_factory.mktemp('programs')
  (programs / 'zip').touch(mode=0o755)  # Asked for, but not used.
  with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, 'deepmind_lab', module)
    patch.setenv('PATH', str(programs), prepend=os.pathsep)
    patch.setenv('HOME', str(tmp_path_factory.mktemp('home')))  # Of the cache.
    yield module
  module.failures.clear()


@pytest.fixture
def modules_forgotten(monkeypatch):
  """Forgets user modules that a test imports, and the names they registered."""
  import gymnasium

  from impala_tf.agents import torsos
  from impala_tf.algorithms import table
  from impala_tf.envs import factory
  from impala_tf.runtime import user_modules
  monkeypatch.setattr(sys, 'path', list(sys.path))
  imported = set(sys.modules)
  registries = [(registry, dict(registry)) for registry in (
      user_modules._sources, user_modules._registrars, gymnasium.registry,
      factory.DOMAINS, torsos.OWN, table.ROWS)]
  yield
  for name in user_modules._sources.keys() - imported:
    sys.modules.pop(name, None)  # One that is shared was not imported.
  for registry, before in registries:
    registry.clear()
    registry.update(before)


@pytest.fixture
def start_workers():
  """Makes `env_processes.Workers` that are closed at the end of the test."""
  from impala_tf.envs import env_processes
  with contextlib.ExitStack() as started:

    def start(make, num_envs, num_processes=2, timeout_secs=100.):
      pool = env_processes.Workers(make, num_envs, num_processes, timeout_secs)
      started.callback(pool.close)
      return pool

    yield start


@pytest.fixture
def refused(call, monkeypatch, capsys):
  """Calls a program that is to refuse its arguments; returns its one line.

  In this process, since another would spend seconds importing TensorFlow. That
  exit code and line arrive outside is tested once for each program.
  """
  from impala_tf.cli import program
  from impala_tf.runtime import child
  # It would start the program anew, in a private network.
  monkeypatch.setattr(program, 'enter_private_network', lambda *unused: None)

  def refuse(main, *arguments):
    assert call(main, *arguments) == child.BAD_INPUT
    output, errors = capsys.readouterr()
    line, = errors.splitlines()
    assert line.startswith('error: ') and not output
    return line

  return refuse


@pytest.fixture
def call(monkeypatch):
  """Calls a program in this process; returns its exit code."""
  from impala_tf.cli import program

  def run(main, *arguments):
    monkeypatch.setattr(sys, 'argv', ['program', *map(str, arguments)])
    return program.run(main)

  return run


# Without Reverb (./launch/test.sh --tensorflow=2.21), tests that need it are
# left out and counted.

_HAS_REVERB = importlib.util.find_spec('reverb') is not None
_WITHOUT_REVERB = ("No module named 'reverb'", beginning.NEEDS_REVERB)
_LEFT_OUT = 'needs Reverb'


def _leave_out(report, path):
  """Turns a failure for want of Reverb into a skip."""
  text = f'{report.longrepr} {report.capstderr}'
  if report.failed and not _HAS_REVERB and any(
      words in text for words in _WITHOUT_REVERB):
    report.outcome = 'skipped'
    report.longrepr = (str(path), 0, _LEFT_OUT)
  return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
  return _leave_out((yield), collector.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
  return _leave_out((yield), item.path)


def _report_reverb(terminalreporter):
  """Says how much was left out for want of Reverb, if anything was."""
  reports = [report for report in terminalreporter.getreports('skipped')
             if report.longrepr[2] == _LEFT_OUT]
  if reports:
    files = sum(isinstance(report, pytest.CollectReport) for report in reports)
    terminalreporter.write_line(
        f'Reverb is not installed: {files} files and {len(reports) - files} '
        'tests of others were left out')


# Faults: one or two tries each in an ordinary run, many with --chaos.


def pytest_addoption(parser):
  parser.addoption(
      '--chaos', type=int, default=0, metavar='TRIES',
      help='try each fault in tests/faults this often, and show figures')


def pytest_configure(config):
  # Whoever asks for many tries of each fault wants those of every tier.
  if config.getoption('--chaos') and config.option.markexpr == _FIRST_TIER:
    config.option.markexpr = 'not soak'


def pytest_collection_modifyitems(config, items):
  tries = config.getoption('--chaos')
  for item in items:
    if item.get_closest_marker('nightly'):
      item.add_marker('slow')  # Nightly tests are a part of that tier.
    if item.get_closest_marker('slow') and not item.get_closest_marker(
        'timeout'):  # Of programs that import TensorFlow.
      item.add_marker(pytest.mark.timeout(900))
    if tries and 'faults' in item.path.parts:
      # Each try may take as long as its own deadlines allow.
      own_secs = item.get_closest_marker('timeout').args[0]
      item.add_marker(pytest.mark.timeout(own_secs + 300 * tries), append=False)


class Fault:
  """Number of tries of a fault, and a recorder of their outcome.

  Attributes:
    tries: number of times to cause the fault.
    is_chaos: whether --chaos was given, which allows long disturbances.
    recovery_secs: seconds that each recovery took.
  """

  def __init__(self, chaos, record):
    self.is_chaos = bool(chaos)
    self.tries = chaos or 1
    self.recovery_secs = []
    self._record = record

  @contextlib.contextmanager
  def recovery(self):
    """Measures the time that a `with` block takes to recover."""
    start = time.monotonic()
    yield
    self.recovery_secs.append(time.monotonic() - start)

  def report(self, name, lost=0):
    """Records figures of a fault, all of whose tries were survived.

    Args:
      name: description of the fault.
      lost: unrolls lost, a number or words; empty if not counted.
    """
    secs = self.recovery_secs
    for column, value in (
        ('fault', name), ('tries', self.tries), ('lost', lost),
        ('recovery', f'median {np.median(secs):.1f}, worst {max(secs):.1f}'
         if secs else '')):
      self._record(column, value)


@pytest.fixture
def fault(request, record_property):
  """Returns the `Fault` that a test tries."""
  return Fault(request.config.getoption('--chaos'), record_property)


def pytest_terminal_summary(terminalreporter, config):
  _report_reverb(terminalreporter)
  if not config.getoption('--chaos'):
    return
  write = terminalreporter.write_line
  write('| fault | tried | survived | lost unrolls | time to recover (s) |')
  write('|---|---|---|---|---|')
  for outcome in ('passed', 'failed'):
    for report in terminalreporter.getreports(outcome):
      row = dict(report.user_properties)
      if report.when == 'call' and 'fault' in row:
        write(f'| {row["fault"]} | {row["tries"]} | {row["tries"]} | '
              f'{row["lost"]} | {row["recovery"]} |')
