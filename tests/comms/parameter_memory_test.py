"""Peers read whole parameters in a learner's memory, or know that it died."""

import errno
import gc
import os
import signal
import time

import numpy as np
import pytest

from impala_tf.comms import parameter_memory
from tests.fixtures import programs

_PATIENCE_SECS = 60.


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
  memory = parameter_memory.Memory(7)
  _write(memory, 1)
  return memory


def _found(memory):
  return parameter_memory.find(['queue', memory.table_name])


def _process(program, *arguments):
  """Starts a process that runs a program with `parameter_memory` imported."""
  return programs.running('-c', f"""
import sys, time
import numpy as np
from impala_tf.comms import parameter_memory
{program}
""", *arguments, stdin=programs.PIPE)


def _kill(process):
  process.kill()
  process.wait()


def test_parameters_are_read_once_each_and_only_the_newest():
  memory = parameter_memory.Memory(7)
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
  _write(memory, 2)  # The lock is free again.
  assert _read(reader)[0] == _stamp(2)


_WRITE_ON_AND_ON = """
memory = parameter_memory.Memory(200_000)
print(memory.table_name, flush=True)
number = 0
while True:
  number += 1
  memory.write(parameter_memory.Stamp(number, number),
               np.full(200_000, number))
  time.sleep(0.001)  # Else the lock is hardly ever free.
"""


def test_torn_parameters_are_never_seen():
  with _process(_WRITE_ON_AND_ON) as writer:
    reader = parameter_memory.find([writer.stdout.readline().strip()])
    deadline = time.monotonic() + _PATIENCE_SECS
    num_read, seen = 0, []
    while num_read < 30:
      assert time.monotonic() < deadline
      # The writer moves if this process held the lock for long.
      assert reader.is_there()
      stamp = reader.read(lambda parameters: seen.append(
          (parameters[::-1].min(), parameters.max())))
      if stamp is not None:
        assert seen[-1] == (stamp.version, stamp.version)
        assert stamp.frames == stamp.version
        num_read += 1


# Has written half of its parameters until it reads a line, or is killed.
_BEGIN_TO_WRITE = """
class Halting:

  def __float__(self):
    print('within', flush=True)
    sys.stdin.readline()
    return 2.

memory = parameter_memory.Memory(7)
memory.write(parameter_memory.Stamp(1, 10), np.ones(7))
print(memory.table_name, flush=True)
sys.stdin.readline()
memory.write(parameter_memory.Stamp(2, 20),
             np.array([2.] * 3 + [Halting()] + [2.] * 3, object))
print('done', flush=True)
sys.stdin.readline()
"""


def _begin(process):
  """Returns a reader, which has read, of a process that is within a write."""
  reader = parameter_memory.find([process.stdout.readline().strip()])
  assert _read(reader) == (_stamp(1), [1.] * 7)
  _let_go_on(process)
  assert process.stdout.readline() == 'within\n'
  return reader


def _let_go_on(process):
  process.stdin.write('\n')
  process.stdin.flush()


def test_reader_does_not_wait_for_a_writer_that_hangs():
  with _process(_BEGIN_TO_WRITE) as writer:
    reader = _begin(writer)
    start = time.monotonic()
    assert _read(reader) is None
    assert time.monotonic() - start < 5
    _let_go_on(writer)
    assert writer.stdout.readline() == 'done\n'
    assert _read(reader) == (_stamp(2), [2.] * 7)


def test_death_of_a_learner_within_a_write_is_an_error():
  with _process(_BEGIN_TO_WRITE) as writer:
    reader = _begin(writer)
    late_comer = parameter_memory.find([reader.table_name])
    _kill(writer)
    for one in (reader, late_comer):
      with pytest.raises(ConnectionError, match='died while it wrote'):
        _read(one)
      assert not one.is_there()


def test_memory_of_a_dead_learner_is_whole_but_not_there():
  with _process(_BEGIN_TO_WRITE) as writer:
    name = writer.stdout.readline().strip()
    reader = parameter_memory.find([name])
    _kill(writer)
    assert not reader.is_there()
    assert _read(reader) == (_stamp(1), [1.] * 7)
    assert parameter_memory.find([name]) is None


_BEGIN_TO_READ = """
def take(parameters):
  print('within', flush=True)
  sys.stdin.readline()

parameter_memory.find(sys.argv[1:]).read(take)
"""


def test_writer_leaves_the_memory_to_a_reader_that_was_stopped(memory):
  reader = _found(memory)
  assert _read(reader)[0] == _stamp(1)
  with _process(_BEGIN_TO_READ, memory.table_name) as stopped:
    assert stopped.stdout.readline() == 'within\n'
    stopped.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    _write(memory, 2)
    assert time.monotonic() - start < 5
    assert reader.is_there()
    assert _read(reader) == (_stamp(2), [2.] * 7)
    assert _read(_found(memory)) == (_stamp(2), [2.] * 7)
  _write(memory, 3)
  assert reader.is_there()
  assert _read(reader)[0] == _stamp(3)


def test_write_is_left_out_if_there_is_no_room_for_another(
    memory, monkeypatch):

  def refuse(*unused_args):
    raise OSError(errno.EFBIG, 'File too large')

  reader = _found(memory)

  def write_in_vain(unused_parameters):  # The reader holds the lock.
    with monkeypatch.context() as patch:
      patch.setattr(os, 'ftruncate', refuse)
      _write(memory, 2)

  _found(memory).read(write_in_vain)
  assert _read(reader) == (_stamp(1), [1.] * 7)
  _write(memory, 3)
  assert _read(reader) == (_stamp(3), [3.] * 7)


def test_memory_that_takes_the_place_of_another_has_parameters_from_the_start(
    memory, monkeypatch):
  holder, reader = _found(memory), _found(memory)
  assert _read(reader)[0] == _stamp(1)
  dup2, seen = os.dup2, []

  def look_at_once(*arguments, **keywords):
    dup2(*arguments, **keywords)
    assert reader.is_there()
    seen.extend([_read(reader), _read(_found(memory))])

  monkeypatch.setattr(os, 'dup2', look_at_once)
  holder.read(lambda parameters: _write(memory, 2))  # It holds the lock.
  assert seen == [(_stamp(2), [2.] * 7)] * 2


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
  other = parameter_memory.Memory(7)
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
  memory = parameter_memory.Memory(7)
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
