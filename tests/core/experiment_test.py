"""Parts as the config has them, and an algorithm that is a file and a row."""

import dataclasses
import types

import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.core import experiment
from impala_tf.core import transport
from impala_tf.envs import catch
from tests.fixtures import configs
from tests.fixtures import unrolls

_config = configs.of_catch


def test_environment_of_the_learner_is_closed_when_its_specs_are_known(
    monkeypatch):
  closed = []
  monkeypatch.setattr(catch.CatchEnvironment, 'close',
                      lambda self: closed.append(self))
  assert [experiment.make_probe_environment(_config())] == closed


@pytest.mark.parametrize('is_in_process', [True, False])
def test_order_is_kept_if_runs_must_be_repeatable(monkeypatch, is_in_process):
  # Seen only in batches of 16 and more, by chance.
  asked = []
  monkeypatch.setattr(
      transport.batches_lib, 'make_batches',
      lambda source, *_: asked.append(source.in_order))
  transport.make_batches(
      _config(in_process=is_in_process), unrolls.spec(), 'localhost:0')
  assert asked == [is_in_process]


@pytest.mark.parametrize('level, instruction_length', [
    ('catch', 0), ('babyai/GoToObjS4-v0', 5)])
def test_seed_determines_the_parameters(level, instruction_length):

  def parameters(seed):
    config = dataclasses.replace(
        _config(seed=seed),
        environment=config_lib.EnvironmentConfig(level=level),
        agent=config_lib.AgentConfig(
            torso='mlp', hidden_size=16, instruction_length=instruction_length))
    environment = experiment.make_environment(config, 1, 0, training=True)
    agent = experiment.make_agent(config, environment)
    return [v.numpy().tolist() for v in agent.trainable_variables]

  assert parameters(1) == parameters(1) != parameters(2)


def test_annealing_takes_the_share_that_the_config_gives():
  config = dataclasses.replace(
      _config(), optimizer=config_lib.OptimizerConfig(annealed_share=0.5))
  environment = experiment.make_environment(config, 1, 0, training=True)
  learner = experiment.make_learner(
      config, environment, tf.distribute.OneDeviceStrategy('/cpu:0'))
  for share, left in ((0, 1), (0.5, 1), (0.75, 0.5), (1, 0)):
    learner.num_frames.assign(int(share * config.experiment.total_frames))
    assert learner.hyperparameters.remaining_share() == left


def test_batch_that_devices_cannot_share_is_refused():
  config = dataclasses.replace(
      _config(), learner=config_lib.LearnerConfig(batch_size=5))
  environment = experiment.make_environment(config, 1, 0, training=True)
  strategy = types.SimpleNamespace(
      extended=types.SimpleNamespace(worker_devices=('/cpu:0', '/cpu:1')))
  with pytest.raises(config_lib.ConfigError, match='use a multiple of 2'):
    experiment.make_learner(config, environment, strategy)
