"""PopArt in IMPALA divides values and advantages, and nothing else.

The oracle is IMPALA's loss without it, on values as they are; that one has its
own tests.
"""

import functools
import types as std_types

from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.algorithms import impala_popart
from impala_tf.core import learner as learner_lib
from impala_tf.maths import distributions
from impala_tf.maths import popart
from impala_tf.maths import running_moments
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.optimizers import rmsprop
from tests.fixtures import loss_inputs

T, B, A, L, FEATURES = 6, 5, 4, 3, 7
FIRST, MID = loss_inputs.FIRST, loss_inputs.MID
TASK = np.array([2, 0, 2, 0, 0], np.int32)  # Nobody plays task 1.
CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(algorithm='impala_popart'),
    optimizer=config_lib.OptimizerConfig(learning_rate=0.01, epsilon=0.01),
    impala=config_lib.ImpalaConfig(
        discount=0.9, baseline_cost=0.7, entropy_cost=0.3,
        reward_clipping='none', clip_rho_threshold=1.6,
        clip_pg_rho_threshold=2.3, clip_c_threshold=1.1, popart_step_size=0.01))
MOMENTS = running_moments.Moments(np.array([3., 1., -40.], np.float32),
                                  np.array([4., 1., 900.], np.float32))


class TableAgent(loss_inputs.TableAgent):
  """A table with moments of each task."""

  def __init__(self, baseline, moments=MOMENTS):
    rng = np.random.default_rng(1)
    super().__init__(rng.normal(size=[T + 1, B, A]), baseline,
                     distributions.Categorical(A))
    self.popart = std_types.SimpleNamespace(
        moments=running_moments.Moments(*map(tf.constant, moments)))


def _outputs():
  """Makes normalised outputs n of every task, [T+1, B, L]."""
  return np.random.default_rng(2).normal(size=[T + 1, B, L])


def _unroll(rewards_of_task=(1., 1., 1.)):
  rng = np.random.default_rng(3)
  shape = [T + 1, B]
  step_type = np.full(shape, MID, np.uint8)
  discount = np.ones(shape, np.float32)
  step_type[3, 0], discount[3, 0] = FIRST, 0  # A game that ends.
  step_type[2, 1] = step_type[T, 2] = FIRST  # Two that are cut off.
  rewards = rng.normal(size=shape) * np.take(rewards_of_task, TASK)
  return tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      observation=rng.normal(size=shape + [FEATURES]),
      action=np.int32(rng.integers(A, size=shape)),
      logits=rng.normal(size=shape + [A]), reward=rewards,
      step_type=step_type, discount=discount, level_index=TASK))


def _loss(agent, unroll, loss=impala_popart.loss):
  """Computes the loss and its gradients for logits and baseline."""
  with tf.GradientTape() as tape:
    output = loss(agent, unroll, CONFIG, CONFIG.impala)
  return output, tape.gradient(output.loss, (agent.logits, agent.baseline))


def _own(per_task):
  """Picks each unroll's task: [..., L] to [..., B]."""
  per_task = np.asarray(per_task)
  if per_task.ndim == 1:
    return per_task[TASK]
  return per_task[:, range(B), TASK]


SIGMA = np.sqrt(MOMENTS.variance)
VALUES = _own(SIGMA) * _own(_outputs()) + _own(MOMENTS.mean)


def _plain():
  """Computes IMPALA's loss, gradients and targets without PopArt."""
  agent = TableAgent(VALUES)
  return (*_loss(agent, _unroll(), impala.loss),
          impala.loss_and_targets(
              agent.unroll(None, None, None), agent.distribution, _unroll(),
              CONFIG.impala, CONFIG.impala.entropy_cost)[1])


def test_errors_are_divided_by_the_sigma_of_their_task():
  expected, _, _ = _plain()
  output, _ = _loss(TableAgent(_outputs()), _unroll())
  sigma = _own(SIGMA)
  assert len(set(sigma)) > 1 and np.all(sigma > 1)
  for name, unit in (('policy_gradient', sigma), ('baseline', sigma**2),
                     ('entropy', np.ones(B))):
    np.testing.assert_allclose(
        output.metrics[f'loss/{name}'],
        expected.metrics[f'loss/{name}'] / unit, rtol=1e-4, err_msg=name)
  np.testing.assert_allclose(
      output.loss, tf.reduce_sum(output.metrics['loss/total']), rtol=1e-5)
  # V-trace saw the same: its weights, that is.
  for name in 'rho/mean', 'rho/clipped_share', 'kl_behaviour_target':
    np.testing.assert_array_equal(output.metrics[name], expected.metrics[name])


def test_baseline_learns_normalised_targets_and_its_own_tasks_alone():
  _, _, targets = _plain()
  _, (_, gradient) = _loss(TableAgent(_outputs()), _unroll())
  normalised = (targets.vs - _own(MOMENTS.mean)) / _own(SIGMA)
  expected = np.zeros([T + 1, B, L])
  expected[:T, range(B), TASK] = CONFIG.impala.baseline_cost * targets.mask * (
      _own(_outputs())[:T] - normalised)
  np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5)
  assert np.count_nonzero(targets.mask == 0) == 2


def test_scale_of_rewards_does_not_matter_once_moments_follow():
  factors = np.array([1000., 1., 0.01], np.float32)
  other = running_moments.Moments(
      MOMENTS.mean * factors, MOMENTS.variance * factors**2)
  (output, gradients), (paid, paid_gradients) = (
      _loss(TableAgent(_outputs(), moments), _unroll(rewards))
      for moments, rewards in ((MOMENTS, np.ones(L)), (other, factors)))
  np.testing.assert_allclose(paid.loss, output.loss, rtol=1e-4)
  for a, b in zip(paid_gradients, gradients):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_totals_are_of_targets_that_no_time_limit_cut_off():
  _, _, targets = _plain()
  totals = _loss(TableAgent(_outputs()), _unroll())[0].totals
  assert totals.count.numpy().tolist() == [3 * T - 1, 0, 2 * T - 1]
  for task in 0, 2:
    plays_it = TASK == task
    deviation = (targets.vs.numpy()[:, plays_it] - MOMENTS.mean[task])[
        targets.mask.numpy()[:, plays_it] == 1]
    np.testing.assert_allclose(
        totals.deviation[task], deviation.sum(), rtol=1e-4)
    np.testing.assert_allclose(
        totals.squared_deviation[task], (deviation**2).sum(), rtol=1e-4)


def _agent():
  tf.random.set_seed(5)
  agent = agent_lib.Agent(
      distributions.Categorical(A),
      config_lib.AgentConfig(torso='mlp', hidden_size=8), num_tasks=L)
  agent.build(specs.Array((FEATURES,), np.float32))
  return agent


def _learner(compile_step):
  strategy = tf.distribute.OneDeviceStrategy('/cpu:0')
  with strategy.scope():
    agent = _agent()
    hyperparameters = hyperparameters_lib.Hyperparameters(CONFIG)
  return learner_lib.Learner(
      agent,
      learner_lib.Objective(
          functools.partial(impala_popart.loss, config=CONFIG,
                            hyperparameters=hyperparameters),
          functools.partial(impala_popart.after_step, config=CONFIG)),
      lambda rate: rmsprop.RMSProp(rate, 0.9, lambda: 0.01),
      hyperparameters, strategy, learner_lib.Settings(
          total_frames=10_000, annealed=True, annealed_share=1.,
          frames_per_step=1, compile_step=compile_step))


def _totals(agent, unroll):
  return impala_popart.loss(agent, unroll, CONFIG, CONFIG.impala).totals


def _values(agent, unroll):
  """Computes V of each unroll's task."""
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action, ())
  return popart.denormalise(
      outputs.baseline, agent.popart.moments, unroll.level_index)


@pytest.mark.parametrize('compile_step', [False, True])
def test_update_moves_the_moments_to_the_targets_and_values_stay(compile_step):
  learner = _learner(compile_step)
  agent, unroll = learner.agent, _unroll(rewards_of_task=(1., 1., 100.))
  expected = popart.update(agent.popart.moments, _totals(agent, unroll),
                           CONFIG.impala.popart_step_size)
  metrics = learner.update(unroll)
  for moment, value in zip(agent.popart.moments, expected):
    np.testing.assert_allclose(moment, value, rtol=1e-4, atol=1e-5)
  assert [float(m[1]) for m in agent.popart.moments] == [0., 1.]
  assert expected.variance[2] > 10 > 2 > expected.variance[0]
  assert metrics['popart/scale_min'] == metrics['popart/scale_max'] == 1
  np.testing.assert_allclose(
      learner.update(unroll)['popart/scale_max'],
      popart.scale(expected)[2], rtol=1e-4)

  # The head moves against them.
  before = _values(agent, unroll)
  agent.popart.update(_totals(agent, unroll), 0.01)
  np.testing.assert_allclose(
      _values(agent, unroll), before, rtol=1e-4, atol=1e-4)
