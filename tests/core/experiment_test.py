"""Parts as the config has them, and an algorithm that is a file and a row."""

import dataclasses
import types

import pytest

from impala_tf import config as config_lib
from impala_tf.core import batches as batches_lib
from impala_tf.core import experiment
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.core import transport
from impala_tf.envs import catch
from impala_tf.runtime import control as control_lib
from tests.fixtures import unrolls


def _config(seed=1, **experiment_options):
  """Makes a config of Catch; 3 environments do not fill batches of 4 evenly."""
  options = {'total_frames': 160, **experiment_options}
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(
          seed=seed, in_process=True, **options),
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(torso='mlp', hidden_size=16),
      actor=config_lib.ActorConfig(num_envs=3),
      learner=config_lib.LearnerConfig(batch_size=4, unroll_length=5))


def test_environment_of_the_learner_is_closed_when_its_specs_are_known(
    monkeypatch):
  closed = []
  monkeypatch.setattr(catch.CatchEnvironment, 'close',
                      lambda self: closed.append(self))
  assert [experiment.make_probe_environment(_config())] == closed


@pytest.mark.parametrize('is_in_process', [True, False])
def test_order_is_kept_where_runs_are_to_be_repeatable(
    monkeypatch, is_in_process):
  # Seen only in batches of 16 and more, by chance.
  asked = []
  monkeypatch.setattr(
      transport.batches_lib, 'make_batches',
      lambda source, *_: asked.append(source.in_order))
  config = _config()
  config = dataclasses.replace(config, experiment=dataclasses.replace(
      config.experiment, in_process=is_in_process))
  transport.make_batches(config, unrolls.spec(), 'localhost:0')
  assert asked == [is_in_process]


@pytest.mark.parametrize('level, instruction_length', [
    ('catch', 0), ('babyai/GoToObjS4-v0', 5)])
def test_seed_determines_the_parameters(level, instruction_length):

  def parameters(seed):
    config = dataclasses.replace(
        _config(seed),
        environment=config_lib.EnvironmentConfig(level=level),
        agent=config_lib.AgentConfig(
            torso='mlp', hidden_size=16, instruction_length=instruction_length))
    environment = experiment.make_environment(config, 1, 0, training=True)
    agent = experiment.make_agent(config, environment)
    return [v.numpy().tolist() for v in agent.trainable_variables]

  assert parameters(1) == parameters(1) != parameters(2)


def test_batch_that_devices_cannot_share_is_refused():
  config = dataclasses.replace(
      _config(), learner=config_lib.LearnerConfig(batch_size=5))
  environment = experiment.make_environment(config, 1, 0, training=True)
  strategy = types.SimpleNamespace(
      extended=types.SimpleNamespace(worker_devices=('/cpu:0', '/cpu:1')))
  with pytest.raises(config_lib.ConfigError, match='use a multiple of 2'):
    experiment.make_learner(config, environment, strategy)


def _replaying(**options):
  return dataclasses.replace(
      _config(**options), learner=config_lib.LearnerConfig(
          batch_size=4, unroll_length=unrolls.T),
      replay=config_lib.ReplayConfig(replay_fraction=0.5))


def _next(reader):
  """Returns the next batch's versions, of fresh and of replayed unrolls."""
  unroll = next(loop.read(reader, control_lib.LoopControl()))
  versions = unroll.policy_version.numpy().tolist()
  return versions[:2], versions[2:]


@pytest.mark.usefixtures('servers_stay')
def test_two_learners_with_queues_of_their_own_sample_one_replay():
  spec = unrolls.spec()
  configs = _replaying(seed=1), _replaying(seed=2)
  shared = queue_lib.make_server([transport.make_replay(configs[0], spec)],
                                 None)
  replay_address = f'localhost:{shared.port}'
  readers, writers = [], []
  for task, config in enumerate(configs):
    tables = transport.make_tables(config, spec, 64, has_replay=False)
    assert [made.name for made in tables] == [queue_lib.QUEUE]
    server = queue_lib.make_server(tables, None)
    address = f'localhost:{server.port}'
    writers.append(transport.make_writer(
        config, address, spec, task, replay_address))
    readers.append(batches_lib.BatchReader(transport.make_batches(
        config, spec, address, shared=(replay_address, 0))))
  for number in range(40):
    for task, writer in enumerate(writers):
      # Numbers tell whose they are: those of the second are above 1000.
      writer.write(unrolls.packed(unrolls.numbered(1000 * task + number)))
      writer.flush()
  replayed = [set(), set()]
  for batch in range(20):
    for task, reader in enumerate(readers):
      fresh, sampled = _next(reader)
      assert fresh == [1000 * task + 2 * batch, 1000 * task + 2 * batch + 1]
      replayed[task].update(sampled)
  for numbers in replayed:  # Either learns from what both have played.
    assert min(numbers) < 40 and max(numbers) >= 1000
