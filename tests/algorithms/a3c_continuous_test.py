"""A3C for continuous actions: both networks learn, the entropy counts once."""

from dm_env import specs
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.algorithms import table
from impala_tf.maths import distributions

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
  zeros = np.zeros([T + 1, B], np.float32)
  env_outputs = tf.nest.map_structure(tf.constant, types.EnvOutput(
      np.ones([T + 1, B], np.uint8), zeros + .3, zeros + 1,
      rng.normal(size=[T + 1, B, 3]).astype(np.float32), zeros, zeros))
  actions = rng.normal(size=[T + 1, B, D]).astype(np.float32)
  logits = agent.unroll(env_outputs, actions, ()).policy_logits
  unroll = types.Unroll(
      env_outputs, types.AgentOutput(actions, logits), (),
      np.zeros(B, np.int64), np.zeros(B, np.int32))
  with tf.GradientTape() as tape:
    output = algorithm.loss(agent, unroll, CONFIG, CONFIG.impala)
  for gradient in tape.gradient(output.loss, agent.trainable_variables):
    assert np.any(gradient.numpy() != 0)
  variance = np.log1p(np.exp(logits[:T, :, -1].numpy().astype(np.float64)))
  np.testing.assert_allclose(
      output.metrics['loss/entropy'],
      -np.sum(.5 * (np.log(2 * np.pi * variance) + 1), axis=0), rtol=1e-4)
  np.testing.assert_allclose(output.metrics['rho/mean'], 1, rtol=1e-5)
