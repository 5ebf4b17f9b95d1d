"""Measures each part of an agent step by itself, in a separate process.

Started by the benchmark: `python -m lab.bench.parts NAME CONFIG.gin`.
"""

from typing import Callable

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import acting as policy_lib
from impala_tf.comms import packing
from impala_tf.comms import sampling
from impala_tf.comms import unroll_filter
from impala_tf.core import actor as actor_lib
from impala_tf.core import batches as batches_lib
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import precision
from impala_tf.runtime import sizing
from impala_tf.suites import levels
from lab.bench import random_actions
from lab.bench import worker

_WARM_UP_CALLS = 3
_EMULATOR_STEPS = 16


# A part of an agent step that is ready to be measured: each call works once and
# returns the number of agent steps.
Part = Callable[[], int]


def _make_environment(config: config_lib.Config):
  return experiment.make_environment(
      config, sizing.fitted(config.actor.num_envs), seed=0, training=True)


def record_unrolls(config: config_lib.Config,
                   number: int) -> list[packing.PackedUnroll]:
  """Plays and returns at least `number` unrolls, with an untrained agent."""
  environment = _make_environment(config)
  agent = experiment.make_agent(config, environment)
  spec = experiment.make_unroll_spec(config, environment, agent)
  unrolls = []

  class Recorder:
    """A writer that appends to `unrolls`, and a fetcher without parameters."""

    def write(self, unroll):
      kept = packing.Packing(spec).allocate(1)
      for column, values in zip(kept.columns, unroll.columns):
        column[0] = values
      unrolls.append(packing.PackedUnroll(*tf.nest.map_structure(
          lambda array: array[0, ...], (kept.columns, kept.unroll)),
                                          row=unroll.row))

    def flush(self, max_pending=0):
      pass

    def fetch(self):
      return 0

  actor = actor_lib.Actor(
      agent, environment, Recorder(), Recorder(), spec, seed=0)
  while len(unrolls) < number:
    actor.run_unroll()
  environment.close()
  return unrolls


def _emulator(config: config_lib.Config) -> Part:
  """Makes the part that steps the bare emulator, without reading its frames."""
  import ale_py
  ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
  ale = ale_py.ALEInterface()
  ale.setFloat('repeat_action_probability', 0.)
  rom = ale_py.roms.get_rom_path(
      levels.expand(config.environment.level)[0].split('/')[1])
  assert rom is not None, 'levels are checked before'
  ale.loadROM(rom)
  actions = ale.getMinimalActionSet()
  rng = np.random.default_rng(0)

  def run():
    for action in rng.integers(len(actions), size=_EMULATOR_STEPS):
      for _ in range(config.atari.action_repeats):
        ale.act(actions[action])
      if ale.game_over():
        ale.reset_game()
    return _EMULATOR_STEPS

  return run


def _environment(config: config_lib.Config) -> Part:
  """Makes the part that steps environments and counts their returns."""
  environment = _make_environment(config)
  counter = policy_lib.EpisodeCounter(environment.num_envs)
  counter.env_output(environment.reset(), environment.side_channels)
  rng = np.random.default_rng(0)

  def run():
    counter.env_output(
        environment.step(random_actions.draw(
            rng, environment.action_spec(), environment.num_envs,
            environment.action_mask)),
        environment.side_channels)
    return environment.num_envs

  return run


def _play(config: config_lib.Config):
  """Plays an unroll; returns the policy, an unroll buffer, and T+1 steps."""
  environment = _make_environment(config)
  agent = experiment.make_agent(config, environment, precision.of_actor(config))
  policy = policy_lib.Policy(agent, environment.num_envs, seed=0)
  counter = policy_lib.EpisodeCounter(environment.num_envs)
  timestep = environment.reset()
  steps = []
  for _ in range(config.learner.unroll_length + 1):
    env_output = tf.nest.map_structure(
        np.copy, counter.env_output(timestep, environment.side_channels))
    agent_output = policy.act(env_output)
    steps.append((env_output, agent_output))
    timestep = environment.step(agent_output.action)
  spec = experiment.make_unroll_spec(config, environment, agent)
  buffer = actor_lib.UnrollBuffer(spec, environment.level_index,
                                  environment.frame_stack)
  environment.close()
  return policy, buffer, steps


def _inference(config: config_lib.Config) -> Part:
  """Makes the part of inference, from observations to actions in NumPy."""
  policy, _, steps = _play(config)

  def run():
    for env_output, _ in steps:
      policy.act(env_output)
    return len(steps) * config.actor.num_envs

  return run


def _assembly(config: config_lib.Config) -> Part:
  """Makes the part that copies steps into unrolls."""
  policy, buffer, steps = _play(config)

  def run():
    buffer.begin(0, policy.core_state)
    for t, (env_output, agent_output) in enumerate(steps):
      buffer.record(t, env_output, agent_output)
    list(buffer.unrolls())
    return (len(steps) - 1) * config.actor.num_envs

  return run


def _make_batch(config: config_lib.Config, spec: types.Unroll):
  """Sends recorded unrolls through a queue; returns them as a batch."""
  batch_size = config.learner.batch_size
  server = queue_lib.make_server([queue_lib.make_queue(spec, batch_size)], None)
  address = f'localhost:{server.port}'
  writer = queue_lib.UnrollWriter(address, spec)
  for unroll in record_unrolls(config, batch_size)[:batch_size]:
    writer.write(unroll)
  packed = packing.Packing(spec)
  batch = next(iter(batches_lib.make_batches(
      sampling.Source(address, queue_lib.QUEUE, batch_size), packed,
      unroll_filter.refusing(packed, 0, None))))
  # Its last unrolls count as replayed.
  return batch._replace(origin=types.Origin(
      tf.range(batch_size) >= config.num_fresh))


def _learner(config: config_lib.Config) -> Part:
  """Makes the part that updates a learner from a batch that is ready."""
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  learner = experiment.make_learner(config, environment,
                                    learner_group.alone().strategy)
  batch = _make_batch(config, experiment.make_unroll_spec(
      config, environment, learner.agent))

  def run():
    learner.update(batch)  # Waits for it.
    # Replayed steps are part of what a new one costs.
    return config.num_fresh * config.learner.unroll_length

  return run


PARTS = {
    'emulator': _emulator,
    'environment': _environment,
    'inference': _inference,
    'assembly': _assembly,
    'learner': _learner,
}


def main():
  name, config, _ = worker.parse_args(__doc__, PARTS)
  sizing.set_threads(config.learner.num_threads if name == 'learner' else 1)
  run = PARTS[name](config)
  for _ in range(_WARM_UP_CALLS):
    run()
  worker.serve(worker.repeatedly(run))


if __name__ == '__main__':
  main()
