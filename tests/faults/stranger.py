"""An actor that should not be there: sends spoilt unrolls to a learner.

`python -m tests.faults.stranger CONFIG.gin ADDRESS` reads lines of TASK, NUMBER
and KIND, and says `sent` when the queue has taken so many, or how it refused.
"""

import itertools
import sys

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import replay
from impala_tf import sizing
from launch import gin_config
from launch.benchmark import parts

OTHER_CONFIG, OTHER_SHAPES = 'other config', 'other shapes'
UNCHECKED_SHAPES = 'other shapes, unchecked'
KINDS = ('nan reward', 'infinite reward', 'nan observation', 'nan logits',
         OTHER_CONFIG)
_BINDINGS = {OTHER_CONFIG: ['AgentConfig.hidden_size = 17'],
             OTHER_SHAPES: ['LearnerConfig.unroll_length = 7']}


def _spoil(unroll, kind):
  array, value = {
      'nan reward': (unroll.env_outputs.reward, np.nan),
      'infinite reward': (unroll.env_outputs.reward, np.inf),
      'nan observation': (unroll.env_outputs.observation, np.nan),
      'nan logits': (unroll.agent_outputs.policy_logits, np.nan),
      OTHER_CONFIG: (unroll.env_outputs.reward, 0.)}[kind]
  array.flat[array.size // 2] = value
  return unroll


def _send(path, address, task, number, kind):
  config = sizing.fit(gin_config.load(path, _BINDINGS.get(kind, ())))
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  spec = experiment.make_unroll_spec(
      config, environment, experiment.make_agent(config, environment))
  writer = experiment.make_writer(config, address, spec, int(task))
  unrolls = itertools.cycle(parts.record_unrolls(config, 4))
  for unroll in itertools.islice(unrolls, int(number)):
    writer.write(_spoil(tf.nest.map_structure(np.copy, unroll), kind))
  writer.flush()


def _send_other_shapes(address):
  """As a client that does not ask what the table wants."""
  writer = reverb.Client(address).trajectory_writer(
      num_keep_alive_refs=1, validate_items=False)
  writer.append((np.zeros(3, np.uint8), np.zeros(4, np.float32),
                 np.zeros(2, np.int32), np.zeros(3, np.int64)))
  writer.create_item(replay.QUEUE, priority=1., trajectory=tuple(
      column[-1] for column in writer.history))
  writer.flush(timeout_ms=10_000)


def main():
  path, address = sys.argv[1:]
  for line in sys.stdin:
    task, number, kind = line.strip().split(' ', 2)
    try:
      if kind == UNCHECKED_SHAPES:
        _send_other_shapes(address)
      else:
        _send(path, address, task, number, kind)
      print('sent', flush=True)
    except (config_lib.UserError, ValueError, RuntimeError) as error:
      print('refused:', ' '.join(str(error).split()), flush=True)


if __name__ == '__main__':
  main()
