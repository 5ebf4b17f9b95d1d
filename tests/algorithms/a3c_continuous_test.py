"""A3C for continuous actions: both networks learn, the entropy counts once."""

from dm_env import specs
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.algorithms import table
from impala_tf.maths import distributions
from tests.fixtures import loss_inputs

T, B, D = 3, 2, 4
CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(algorithm='a3c_continuous'),
    agent=config_lib.AgentConfig(torso='dense', hidden_size=6),
    impala=config_lib.ImpalaConfig(correction='none', entropy_cost=1e-4))


def test_all_parameters_learn_and_entropy_is_that_of_one_dimension():
  rng = np.random.default_rng(0)
  algorithm = table.get(CONFIG)
  agent = algorithm.make_agent(
      CONFIG, distributions.Gaussian(D), 'float32', False)
  agent.build(specs.Array((3,), np.float32))
  unroll = tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      np.float32(rng.normal(size=[T + 1, B, D])), (), np.full([T + 1, B], .3),
      observation=rng.normal(size=[T + 1, B, 3])))
  actions = unroll.agent_outputs.action
  logits = agent.unroll(unroll.env_outputs, actions, ()).policy_logits
  unroll = unroll._replace(agent_outputs=types.AgentOutput(actions, logits))
  with tf.GradientTape() as tape:
    output = algorithm.loss(agent, unroll, CONFIG, CONFIG.impala)
  for gradient in tape.gradient(output.loss, agent.trainable_variables):
    assert np.any(gradient.numpy() != 0)
  variance = np.log1p(np.exp(logits[:T, :, -1].numpy().astype(np.float64)))
  np.testing.assert_allclose(
      output.metrics['loss/entropy'],
      -np.sum(.5 * (np.log(2 * np.pi * variance) + 1), axis=0), rtol=1e-4)
  np.testing.assert_allclose(output.metrics['rho/mean'], 1, rtol=1e-5)
