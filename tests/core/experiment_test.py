"""Parts as the config has them, and an algorithm that is a file and a row."""

import types

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import torsos
from impala_tf.core import experiment
from impala_tf.core import transport
from tests.fixtures import configs
from tests.fixtures import loss_inputs
from tests.fixtures import unrolls

_config = configs.of_catch


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


@pytest.mark.parametrize('level, torso, instruction_length', [
    ('catch', 'mlp', 0), ('babyai/GoToObjS4-v0', 'mlp', 5),
    ('catch', 'keras', 0)])
def test_seed_determines_the_parameters(
    level, torso, instruction_length, monkeypatch):
  monkeypatch.setitem(torsos.OWN, 'keras', lambda size, precision: (
      tf.keras.Sequential([tf.keras.layers.Flatten(),
                           tf.keras.layers.Dense(size)])))

  def parameters(seed):
    config = _config(seed=seed).replaced('environment', level=level).replaced(
        'agent', torso=torso, instruction_length=instruction_length)
    environment = experiment.make_environment(config, 1, 0, training=True)
    agent = experiment.make_agent(config, environment)
    return [v.numpy().tolist() for v in agent.trainable_variables]

  assert parameters(1) == parameters(1) != parameters(2)


def _learner(section, **options):
  config = _config().replaced(section, **options)
  return experiment.make_learner(
      config, experiment.make_environment(config, 1, 0, training=True),
      tf.distribute.OneDeviceStrategy('/cpu:0'))


def test_annealing_takes_the_share_that_the_config_gives():
  learner = _learner('optimizer', annealed_share=0.5)
  for share, left in ((0, 1), (0.5, 1), (0.75, 0.5), (1, 0)):
    learner.num_frames.assign(int(share * _config().experiment.total_frames))
    assert learner.hyperparameters.remaining_share() == left


def test_optimiser_has_the_configs_numbers_and_a_populations_epsilon():
  learner = _learner('optimizer', learning_rate=6e-4, decay=0.75, momentum=0.5,
                     bias_correction=True)
  learner.hyperparameters.epsilon.assign(3.)
  variables = learner.agent.trainable_variables
  before = variables[0].numpy()
  for _ in range(2):  # The mean square is 1, and the root of both 2.
    learner.optimizer.apply_gradients((tf.ones_like(v), v) for v in variables)
  np.testing.assert_allclose(
      before - variables[0], (1 + 1.5) * 6e-4 / 2, rtol=1e-3)
  assert learner.optimizer.start_share == 0.75**2


def test_loss_has_the_entropy_cost_of_the_present():
  learner = _learner('impala', entropy_annealed_to=0.)
  learner.num_frames.assign(_config().experiment.total_frames)
  found = learner.gradients(tf.nest.map_structure(tf.constant, (
      loss_inputs.unroll(np.int32([[1], [1]]), np.zeros([2, 1, 3]),
                         np.ones([2, 1]), observation=np.ones([2, 1, 10, 5]))
  ))).metrics
  np.testing.assert_allclose(
      found['loss/total'], found['loss/policy_gradient'] +
      _config().impala.baseline_cost * found['loss/baseline'], rtol=1e-6)


def test_levels_go_on_from_actor_to_actor():
  config = _config().replaced('actor', num_envs=2).replaced(
      'environment', level='tmaze/1,tmaze/2,tmaze/3')
  for task, levels in enumerate(([0, 1], [2, 0])):
    environment = experiment.make_actor_environment(config, 0, task)
    assert environment.level_index.tolist() == levels


def test_priorities_have_the_configs_exponents(monkeypatch):
  config = _config().replaced(
      'replay', replay_fraction=.5, sampling='priorities',
      priority_exponent=.25, priority_correction=.75)
  options = transport.make_replay(config, unrolls.spec()).info.sampler_options
  assert options.prioritized.priority_exponent == .25
  monkeypatch.setattr(transport.batches_lib, 'make_batches',
                      lambda *arguments: arguments)
  join = transport.make_batches(config, unrolls.spec(), 'localhost:0')[3]
  assert join.__self__.correction == .75


def test_batch_that_devices_cannot_share_is_refused():
  config = _config().replaced('learner', batch_size=5)
  environment = experiment.make_environment(config, 1, 0, training=True)
  strategy = types.SimpleNamespace(
      extended=types.SimpleNamespace(worker_devices=('/cpu:0', '/cpu:1')))
  with pytest.raises(config_lib.ConfigError, match='use a multiple of 2'):
    experiment.make_learner(config, environment, strategy)
