"""Tests of a program on a real cluster: its start, its end, and its loss."""

import contextlib
import os
import signal
import time

import psutil
import pytest

from impala_tf.ray_cluster import connection as ray_connection
from impala_tf.runtime import child
from impala_tf.runtime import program as program_lib
from tests.fixtures import programs

ray = pytest.importorskip('ray', reason="needs the extra 'ray'")

from impala_tf.ray_cluster import host  # noqa: E402  It needs Ray.
from impala_tf.ray_cluster import program as ray_program  # noqa: E402
from tests.fixtures import ray_nodes  # noqa: E402

State = program_lib.State

# A node has room for one.
_NEEDS = ray_connection.Resources(2., 0.)

# On a real cluster, which the first test starts.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(name='cluster', scope='module', autouse=True)
def _cluster(shared_cluster):
  with ray_connection.connected(shared_cluster.address) as nodes:
    assert sorted(nodes) == [(0, 0), (2, 0), (2, 0)]
    yield shared_cluster


@pytest.fixture(name='make')
def _make(tmp_path):
  made = []

  def make(name='mine', **options):
    made.append(ray_program.RayProgram(
        name, tmp_path, _NEEDS, {'MY_VARIABLE': 'mine'}, **options))
    return made[-1]

  yield make
  for one in made:
    one.withdraw()


def _until(program, state):
  def reached():
    program.collect()
    return program.state is state
  programs.wait_until(reached, f'{program.name} to be {state}')


def _start(program, mode):
  program.place()
  _until(program, State.PLACED)
  assert len(set(program.report.free_ports)) == 2
  program.collect()  # Its node is being asked while it starts.
  program.start(['my_program', mode])
  assert program.state is State.RUNNING


def _pid(program, start=1):
  """Returns the process id of this start of the program."""

  def found():
    program.collect()
    lines = program.log_path.read_text().splitlines()
    pids = [line.split()[1] for line in lines if line.startswith('pid ')]
    return len(pids) >= start and pids

  return int(programs.wait_until(found, 'its first line')[start - 1])


def test_ipv6_addresses_are_in_brackets():
  assert host.bracketed('fd00::1') == '[fd00::1]'
  assert host.bracketed('10.0.0.1') == '10.0.0.1'


def test_output_comes_whole_and_before_the_end(make):
  program = make('a/b')
  assert program.exit_code is None
  _start(program, 'short')
  _until(program, State.ENDED)
  assert program.exit_code == 3
  first, second, third = program.log_path.read_text().splitlines()
  assert first == f'started on {program.place_name}'
  assert second.split()[2:] == ['mine', os.getcwd()]
  assert third == 'x' * 200_000 + 'the end'


def test_output_without_room_is_lost_alone(make, tmp_path):
  (tmp_path / 'full.log').symlink_to('/dev/full')
  program = make('full')
  _start(program, 'short')
  _until(program, State.ENDED)
  assert program.exit_code == 3


def test_complaint_is_that_of_the_last_start(make):
  program = make()
  _start(program, 'bad')
  _until(program, State.ENDED)
  assert (program.exit_code, program.complaint()) == (1, 'it was bad')
  # It can start on the same node at once.
  program.place()
  assert program.state is State.PLACED
  program.start(['my_program', 'long'])
  assert not program.complaint()


def test_node_without_the_directory_is_named(make, tmp_path):
  program = make(needed=[str(tmp_path), str(tmp_path / 'nope')])
  _start(program, 'long')
  _until(program, State.ENDED)
  assert program.exit_code == child.BAD_INPUT
  assert f'has no {tmp_path / "nope"}; the project' in program.complaint()


def test_signal_and_withdrawal_end_it(make):
  program = make()
  _start(program, 'long')
  pid = _pid(program)
  program.send(signal.SIGTERM)
  _until(program, State.ENDED)
  assert program.exit_code == 143 and not programs.is_alive(pid)
  program.withdraw()
  assert program.state is State.ABSENT

  _start(program, 'long')
  pid = _pid(program)
  program.withdraw()
  programs.wait_until(lambda: not programs.is_alive(pid), 'its end')


def test_program_without_room_waits_and_nobody_is_blocked(make):
  both = [make('one'), make('two')]
  for program in both:
    _start(program, 'long')
  assert both[0].report.node != both[1].report.node
  third = make('three')
  third.place()
  for _ in range(10):
    start = time.monotonic()
    third.collect()
    assert time.monotonic() - start < 5
    assert third.state is State.PLACING
  both[0].withdraw()
  _until(third, State.PLACED)
  assert third.report.node == both[0].report.node


def test_lost_with_its_node_it_is_placed_elsewhere(make, cluster):
  program = make()
  _start(program, 'long')
  pid, node = _pid(program), program.report.node
  ray_nodes.lose(cluster, node)
  _until(program, State.LOST)
  assert program.how_it_ended().startswith('was lost: ')
  assert program.exit_code is None
  # The old process ends before a new one can be anywhere.
  programs.wait_until(lambda: not programs.is_alive(pid), 'its end')
  program.place()
  _until(program, State.PLACED)
  assert program.report.node != node
  program.start(['my_program', 'long'])
  _until(program, State.RUNNING)
  assert programs.is_alive(_pid(program, start=2))
  ray_nodes.add_node(cluster, num_cpus=2)  # For whichever test is next.


def test_host_that_does_not_answer_is_given_up(make):
  program = make(silence_secs=1.)
  _start(program, 'long')
  pid = _pid(program)
  host = psutil.Process(pid).ppid()
  os.kill(host, signal.SIGSTOP)
  try:
    _until(program, State.LOST)
    assert 'waited 1 s for an answer, in vain' in program.how_it_ended()
    program.place()
    _until(program, State.PLACED)
  finally:
    with contextlib.suppress(ProcessLookupError):  # Ray may have, meanwhile.
      programs.kill(host)
  programs.wait_until(lambda: not programs.is_alive(pid), 'its end')
