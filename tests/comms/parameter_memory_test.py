"""Peers read whole parameters in a learner's memory, and know that it died."""

import gc
import os
import time

import numpy as np
import pytest

from impala_tf.comms import parameter_memory
from tests.fixtures import programs


def _stamp(number):
  return parameter_memory.Stamp(number, 10 * number)


def _write(memory, number):
  """Writes parameters that all are this number."""
  memory.write(_stamp(number), np.full(7, number))


def _read(reader):
  """Returns stamp and parameters; None if nothing is new."""
  taken = []
  stamp = reader.read(lambda parameters: taken.append(parameters.copy()))
  return None if stamp is None else (stamp, taken[0].tolist())


@pytest.fixture(name='memory')
def _memory():
  """Makes a memory with parameters 1."""
  memory = parameter_memory.make(7)
  _write(memory, 1)
  return memory


def _found(memory):
  return parameter_memory.find(['queue', memory.table_name])


def _process(program):
  """Starts a process that runs a program with `parameter_memory` imported."""
  return programs.running('-c', f"""
import sys, time
import numpy as np
from impala_tf.comms import parameter_memory
{program}
""")


def test_parameters_are_read_once_each_and_only_the_newest():
  memory = parameter_memory.make(7)
  reader = _found(memory)
  assert _read(reader) is None  # Nothing is there before the first write.
  _write(memory, 3)
  assert _read(reader) == (_stamp(3), [3.] * 7)
  assert _read(reader) is None
  _write(memory, 4)
  _write(memory, 5)
  assert _read(reader) == (_stamp(5), [5.] * 7)
  assert _read(_found(memory)) == (_stamp(5), [5.] * 7)  # A late comer.
  assert reader.is_there()


def test_parameters_that_could_not_be_taken_are_read_again(memory):
  reader = _found(memory)

  def refuse(parameters):
    raise ValueError(f'{parameters.size} are too many')

  with pytest.raises(ValueError, match='7 are too many'):
    reader.read(refuse)
  assert _read(reader)[0] == _stamp(1)
  _write(memory, 2)
  assert _read(reader)[0] == _stamp(2)


_WRITE_ON_AND_ON = """
memory = parameter_memory.make(200_000)
print(memory.table_name, flush=True)
number = 0
while True:
  number += 1
  memory.write(parameter_memory.Stamp(number, number), np.full(200_000, number))
  time.sleep(0.001)  # Updates take longer.
"""


def test_torn_parameters_are_never_seen():
  with _process(_WRITE_ON_AND_ON) as writer:
    reader = parameter_memory.find([writer.stdout.readline().strip()])
    deadline = time.monotonic() + programs.DEADLINE_SECS
    num_read, seen = 0, []
    while num_read < 30:
      assert time.monotonic() < deadline
      stamp = reader.read(lambda parameters: seen.append(
          (parameters[::-1].min(), parameters.max())))
      if stamp is not None:
        assert seen[-1] == (stamp.version, stamp.version)
        assert stamp.frames == stamp.version
        num_read += 1


@pytest.mark.parametrize('num_writes, taken', [(1, [1.]), (2, [1., 3.])])
def test_parameters_that_change_while_they_are_taken_are_taken_again(
    memory, num_writes, taken):
  reader, seen, left = _found(memory), [], list(range(2, 2 + num_writes))

  def take(parameters):
    seen.append(parameters[0])
    while left:
      _write(memory, left.pop(0))

  assert reader.read(take) == _stamp(int(taken[-1]))
  assert seen == taken


# Has written half of its parameters until it is killed.
_BEGIN_TO_WRITE = """
class Halting:

  def __float__(self):
    print('within', flush=True)
    time.sleep(1000)

memory = parameter_memory.make(7)
memory.write(parameter_memory.Stamp(1, 10), np.ones(7))
print(memory.table_name, flush=True)
memory.write(parameter_memory.Stamp(2, 20),
             np.array([2.] * 3 + [Halting()] + [2.] * 3, object))
"""


def test_learner_that_hangs_or_dies_within_a_write_leaves_whole_parameters():
  with _process(_BEGIN_TO_WRITE) as writer:
    reader, late_comer = (parameter_memory.find([name]) for name in
                          [writer.stdout.readline().strip()] * 2)
    assert writer.stdout.readline() == 'within\n'
    assert _read(reader) == (_stamp(1), [1.] * 7)
    assert _read(reader) is None and reader.is_there()
    writer.kill()
    writer.wait()
    assert not reader.is_there()
    assert _read(late_comer) == (_stamp(1), [1.] * 7)
    assert parameter_memory.find([reader.table_name]) is None


def test_wrong_number_of_parameters_is_refused_and_leaves_all_as_it_is(memory):
  with pytest.raises(ValueError, match='for 7 parameters, but 1 were'):
    memory.write(_stamp(2), np.full(1, 2.))
  assert _read(_found(memory)) == (_stamp(1), [1.] * 7)


def _renamed(memory, **parts):
  """Returns the name of a memory with some of its parts replaced."""
  keys = ('boot_id', 'pid', 'fd', 'token')
  values = memory.table_name[len('parameters-'):].split('/')
  return 'parameters-' + '/'.join(
      str(value) for value in {**dict(zip(keys, values)), **parts}.values())


def test_memory_that_is_not_meant_is_not_opened(memory, tmp_path):
  other = parameter_memory.make(7)
  assert parameter_memory.find([_renamed(memory)]) is not None
  os.mkfifo(tmp_path / 'fifo')  # Opening it would block.
  fifo = os.open(tmp_path / 'fifo', os.O_RDWR)
  for parts in ({'boot_id': '0f6a4c43-799c-468b-9a52-954cb5bde87e'},
                {'pid': 2**22 + 1}, {'fd': 10**6}, {'fd': fifo},
                {'fd': other.table_name.split('/')[2]}, {'token': 'abc'},
                {'token': 'x'}):
    assert parameter_memory.find([_renamed(memory, **parts)]) is None, parts
  os.close(fifo)
  for name in 'parameters-', 'parameters-a/b/c/d', 'queue':
    assert parameter_memory.find([name]) is None


def test_nothing_is_left_behind():
  memory = parameter_memory.make(7)
  name = memory.table_name
  del memory
  gc.collect()
  assert parameter_memory.find([name]) is None


def test_system_without_such_memory_goes_without(monkeypatch):
  def refuse(name):
    raise OSError(f'{name}: Function not implemented')

  assert parameter_memory.make(7) is not None
  monkeypatch.setattr(os, 'memfd_create', refuse)
  assert parameter_memory.make(7) is None
