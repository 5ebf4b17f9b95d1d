"""Small unrolls that tell each other apart, and servers to send them to."""

import contextlib

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types
from tests import programs

T = 3
NUM_ACTIONS = 5
_OBSERVATION = dm_env.specs.Array((2, 7), np.float32)
_ACTION = dm_env.specs.DiscreteArray(NUM_ACTIONS, np.int32)


def spec():
  """Of one unroll, with a core state that has parts of its own."""
  core_state = (tf.zeros([1, 4]), tf.zeros([1], tf.int32))
  return types.unroll_spec(
      _OBSERVATION, 1, _ACTION, NUM_ACTIONS, core_state, T,
      instruction_length=4)


def numbered(number):
  """An unroll all of whose values depend on its number (at most 20)."""
  count = 0

  def values(of):
    nonlocal count
    count += 1
    size = int(np.prod(of.shape))
    array = (np.arange(size) + 10 * number + count) % 256
    return array.reshape(of.shape).astype(of.dtype.as_numpy_dtype)

  unroll = tf.nest.map_structure(values, spec())
  return unroll._replace(policy_version=np.int64(number),
                         level_index=np.int32(number % 3))


def assert_equal(actual, expected):
  """Compares structure, dtypes and values."""
  tf.nest.assert_same_structure(actual, expected)
  for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
    a = np.asarray(a)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


# Serves a queue of unrolls and the parameters of `weights_variables`.
_SERVER = """
import sys
from tests import unrolls
from impala_tf import replay
from impala_tf import weights
server = replay.make_server(
    [replay.make_queue(unrolls.spec(), 2),
     weights.make_table(unrolls.variables())], None)
print(server.port, flush=True)
sys.stdin.read()
"""


def variables(value=0.):
  """Parameters of several shapes."""
  return [tf.Variable(tf.fill(shape, value))
          for shape in ((), (3,), (2, 4), (2, 1, 3))]


@contextlib.contextmanager
def server_process():
  """Serves from another process; yields it (to be killed) and its address."""
  with programs.running('-c', _SERVER, stdin=programs.PIPE) as process:
    yield process, f'localhost:{int(process.stdout.readline())}'
