"""The learner's update against its parts put together by hand."""

import functools
import sys

from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import impala
from impala_tf.core import learner as learner_lib
from impala_tf.maths import distributions
from impala_tf.maths import frame_stacks
from impala_tf.optimizers import hyperparameters as hyperparameters_lib
from impala_tf.optimizers import rmsprop
from tests.fixtures import loss_inputs
from tests.fixtures import two_cpus

T, B, A, SHAPE = 6, 4, 3, (10, 5)  # Observations and actions of Catch.
L = 3  # Words of an instruction.
STACK = 4
FRAMES_PER_STEP = 4
FRAMES_PER_UPDATE = T * B * FRAMES_PER_STEP
LEARNING_RATE, MAX_NORM = 0.05, 0.7
OPTIMIZER = dict(decay=0.9, epsilon=0.02, momentum=0.6)


def _agent(use_lstm=False, compiled=False, normalise=False):
  tf.random.set_seed(5)
  agent = agent_lib.Agent(distributions.Categorical(A), config.AgentConfig(
      torso='mlp', use_lstm=use_lstm, hidden_size=7, lstm_size=6,
      instruction_length=L, normalise_observations=normalise),
                          compiled=compiled)
  agent.build(specs.Array(SHAPE, np.float32))
  return agent


CONFIG = config.Config(optimizer=config.OptimizerConfig(
    learning_rate=LEARNING_RATE, epsilon=0.02, max_gradient_norm=MAX_NORM))


def _loss(agent, unroll):
  return impala.loss(agent, unroll, CONFIG, CONFIG.impala)


def _squares(agent, unroll):
  """Computes a loss of all in an unroll, quicker to trace than IMPALA's."""
  outputs = agent.unroll(unroll.env_outputs, unroll.agent_outputs.action,
                         unroll.core_state)
  errors = outputs.baseline - unroll.env_outputs.reward
  logits = outputs.policy_logits - unroll.agent_outputs.policy_logits
  return types.LossOutput(tf.reduce_sum(errors**2) + tf.reduce_sum(logits**2),
                          {'error': tf.reduce_mean(errors),
                           'num_positive': tf.math.count_nonzero(errors > 0),
                           'of_unroll': tf.reduce_mean(errors, axis=0)})


def _learner(make_agent=_agent, loss_fn=_loss, strategy=None, after_step=None,
             **replaced):
  strategy = strategy or tf.distribute.OneDeviceStrategy('/cpu:0')
  settings = CONFIG.replaced('impala', **replaced.pop('impala', {})).replaced(
      'optimizer',
      max_gradient_norm=replaced.pop('max_gradient_norm', MAX_NORM))
  momentum = replaced.pop('momentum', OPTIMIZER['momentum'])
  numbers = learner_lib.Settings(
      total_frames=10 * FRAMES_PER_UPDATE, annealed=True, annealed_share=1.,
      frames_per_step=FRAMES_PER_STEP, compile_step=False)._replace(**replaced)
  with strategy.scope():
    agent = make_agent()
    hyperparameters = hyperparameters_lib.Hyperparameters(settings)
  return learner_lib.Learner(
      agent,
      learner_lib.Objective(loss_fn, *[after_step] if after_step else []),
      lambda rate: rmsprop.RMSProp(
          rate, OPTIMIZER['decay'], lambda: hyperparameters.epsilon, momentum),
      hyperparameters, strategy, numbers)


def _unroll(core_state=(), seed=0):
  rng = np.random.default_rng(seed)
  shape = [T + 1, B]
  return tf.nest.map_structure(tf.constant, loss_inputs.unroll(
      step_type=np.uint8(rng.random(shape) < 0.8),
      reward=rng.normal(size=shape),
      discount=np.float32(rng.random(shape) < 0.9),
      observation=rng.normal(size=shape + list(SHAPE)),
      # Of two words, so that each occurs many times.
      instruction=np.int32(rng.integers(1, 3, size=shape + [L])),
      action=np.int32(rng.integers(A, size=shape)),
      logits=rng.normal(size=shape + [A]),
      core_state=loss_inputs.memories(core_state, rng),
      origin=types.Origin(np.zeros([B], bool))))


def _parameters(module):
  agent = getattr(module, 'agent', module)
  return [v.numpy() for v in agent.trainable_variables]


def _by_hand(loss_fn, num_updates, max_norm, total_updates=10):
  """Computes parameters and gradient norms with TensorFlow 1's RMSProp."""
  agent = _agent()
  rate = tf.Variable(0.0)
  optimizer = tf.compat.v1.train.RMSPropOptimizer(lambda: rate, **OPTIMIZER)
  variables = agent.trainable_variables
  norms = []

  @tf.function
  def gradients_of(unroll):
    with tf.GradientTape() as tape:
      loss = loss_fn(agent, unroll).loss
    return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

  for i in range(num_updates):
    gradients = [g.numpy() for g in gradients_of(_unroll(seed=i))]
    norms.append(np.linalg.norm(np.concatenate(
        [g.astype(np.float64).ravel() for g in gradients])))
    scale = min(1.0, max_norm / norms[-1])
    rate.assign(LEARNING_RATE * (1 - i / total_updates))
    optimizer.apply_gradients(
        (tf.constant(np.float32(scale * g)), v)
        for g, v in zip(gradients, variables))
  return _parameters(agent), norms


@pytest.mark.parametrize('loss_fn,max_norm', [
    (_loss, MAX_NORM), (_squares, MAX_NORM), (_squares, None)])
def test_updates_are_gradient_clip_and_rmsprop(loss_fn, max_norm):
  expected, norms = _by_hand(loss_fn, 3, max_norm or np.inf)
  assert min(norms) > 2 * MAX_NORM
  learner = _learner(loss_fn=loss_fn, max_gradient_norm=max_norm)
  start = _parameters(learner)
  for i in range(3):
    metrics = learner.update(_unroll(seed=i))
    # Before it is clipped.
    np.testing.assert_allclose(metrics['gradient_norm'], norms[i], rtol=1e-4)
  for x, y, before in zip(_parameters(learner), expected, start):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    assert np.abs(x - before).max() > 5e-4


def _with_origin(unroll, num_replayed, *foreign):
  """Marks a batch's last unrolls as replayed, some by other agents."""
  indices = range(B)
  return unroll._replace(origin=types.Origin(
      tf.constant([i >= B - num_replayed for i in indices]),
      is_foreign=tf.constant([i in foreign for i in indices])
      if foreign else ()))


@pytest.mark.parametrize('shape', [(T, B), (B + 1,)])
def test_metric_of_another_shape_is_named(shape):
  def loss(agent, unroll):
    output = _loss(agent, unroll)
    return output._replace(metrics={**output.metrics, 'mine': tf.zeros(shape)})

  with pytest.raises(ValueError, match="the metric 'mine' is .* not .B. or "):
    _learner(loss_fn=loss).update(_unroll())


@pytest.mark.parametrize('num_replayed, foreign', [
    (0, ()), (1, ()), (3, (2,)),
    pytest.param(3, (1, 2, 3), marks=pytest.mark.slow)])
def test_metrics_are_the_losses_of_all_and_of_each_kind(num_replayed, foreign):
  learner, unroll = _learner(num_replayed=num_replayed), _unroll()
  expected = _loss(learner.agent, unroll).metrics
  metrics = learner.update(_with_origin(unroll, num_replayed, *foreign))
  num_fresh = B - num_replayed
  assert learner.num_frames.numpy() == T * num_fresh * FRAMES_PER_STEP
  kinds = {'': range(B)}
  if num_replayed:
    kinds |= {'fresh/': range(num_fresh), 'replayed/': range(num_fresh, B)}
  if foreign:
    kinds |= {'foreign/': foreign, 'own/': [
        i for i in range(num_fresh, B) if i not in foreign]}
  wanted = {}
  for name, value in expected.items():
    if value.shape.rank == 0:
      wanted[name] = value
      continue
    for kind, indices in kinds.items():
      values = value.numpy()[list(indices)]
      wanted[kind + name] = (
          np.sum(values) if name.startswith('loss/') else
          np.mean(values) if len(values) else np.nan)
  assert set(metrics) == set(wanted) | {'gradient_norm', 'learning_rate'}
  for name, value in wanted.items():
    np.testing.assert_allclose(metrics[name], value, rtol=1e-4, err_msg=name)
  assert all(m.shape == () and m.dtype == tf.float32 for m in metrics.values())


@pytest.mark.slow
def test_fresh_unrolls_that_only_pace_count_frames_and_teach_nothing():
  paced, alone = _learner(
      num_replayed=3, learns_from_fresh=False, unroll_metrics=['loss/total']
  ), _learner()
  unroll = _unroll()
  metrics = paced.update(_with_origin(unroll, 3))
  assert paced.num_frames.numpy() == T * 1 * FRAMES_PER_STEP
  replayed = tf.nest.map_structure(
      lambda t: t[:, 1:], unroll._replace(
          policy_version=(), level_index=(), origin=())
  )._replace(policy_version=unroll.policy_version[1:],
             level_index=unroll.level_index[1:])
  expected = _loss(_learner().agent, replayed).metrics['loss/total']
  np.testing.assert_allclose(metrics['unroll/loss/total'], expected, rtol=1e-4)
  alone.update(replayed)
  for x, y in zip(_parameters(paced), _parameters(alone)):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
  assert not any(name.startswith('fresh/') for name in metrics)
  np.testing.assert_allclose(
      metrics['replayed/loss/total'], np.sum(expected), rtol=1e-4)


def test_every_parameter_learns_through_the_lstm_too():
  learner = _learner(lambda: _agent(use_lstm=True), _squares)
  agent = learner.agent
  before = _parameters(agent)
  learner.update(_unroll(agent.initial_state(B)))
  for x, y, v in zip(_parameters(agent), before, agent.trainable_variables):
    assert np.any(x != y), v.name


def _with_nan(unroll):
  """Returns a copy with one reward that is NaN."""
  reward = unroll.env_outputs.reward.numpy()
  reward[2, 1] = np.nan
  return unroll._replace(env_outputs=unroll.env_outputs._replace(
      reward=tf.constant(reward)))


def test_update_that_fails_is_not_counted():
  def loss(agent, unroll):
    tf.debugging.assert_all_finite(unroll.env_outputs.reward, 'no number')
    return _squares(agent, unroll)

  learner = _learner(loss_fn=loss)
  with pytest.raises(tf.errors.InvalidArgumentError, match='no number'):
    learner.update(_with_nan(_unroll()))
  assert learner.num_updates.numpy() == learner.num_frames.numpy() == 0


@pytest.mark.parametrize('compile_step', [False, True])
@pytest.mark.parametrize('max_norm', [MAX_NORM, None])
def test_update_without_finite_gradients_is_skipped(compile_step, max_norm):
  num_steps = tf.Variable(0)
  # XLA clips a reward that is NaN, so a loss that does not.
  learner = _learner(
      functools.partial(_agent, compiled=compile_step), _squares,
      compile_step=compile_step, max_gradient_norm=max_norm,
      after_step=lambda agent, totals: num_steps.assign_add(1))
  learner.update(_unroll(seed=1))
  counts = (learner.num_updates, learner.num_frames)
  kept = [*learner.agent.variables, *learner.optimizer.variables]
  before = [v.numpy() for v in kept]
  assert len(kept) == 3 * len(learner.agent.trainable_variables)
  metrics = learner.update(_with_nan(_unroll(seed=2)))
  assert not np.isfinite(metrics['gradient_norm'])
  for variable, value in zip(kept, before):
    np.testing.assert_array_equal(variable.numpy(), value)
  assert num_steps.numpy() == 1
  # It has used its frames up, and the next one counts.
  assert [count.numpy() for count in counts] == [2, 2 * FRAMES_PER_UPDATE]
  metrics = learner.update(_unroll(seed=3))
  assert np.isfinite(metrics['gradient_norm'])
  for variable, value in zip(kept, before):
    assert np.any(variable.numpy() != value) and np.all(
        np.isfinite(variable.numpy()))


@pytest.mark.slow
def test_xla_gives_the_same_update_to_rounding():
  parameters = []
  for compiled in False, True:
    learner = _learner(functools.partial(_agent, compiled=compiled),
                       compile_step=compiled)
    for i in range(2):
      learner.update(_unroll(seed=i))
    parameters.append(_parameters(learner))
  for x, y in zip(*parameters):
    np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-6)


class _Scale(tf.Module):
  """An agent of a single parameter."""

  def __init__(self):
    super().__init__()
    self.factor = tf.Variable(1.0)
    self.normaliser = None


def _show_observation(agent, unroll):
  """Computes a loss whose metrics hold the observation."""
  observation = tf.cast(unroll.env_outputs.observation, tf.float32)
  return types.LossOutput(agent.factor**2, {'observation': observation})


def _observed(unroll, compile_step=False):
  """Returns the observation that the loss is given."""
  learner = _learner(_Scale, _show_observation)
  gradients = tf.function(learner.gradients, jit_compile=compile_step)
  return gradients(unroll).metrics['observation']


@pytest.mark.parametrize('compile_step', [
    False, pytest.param(True, marks=pytest.mark.slow)])
def test_moments_are_those_of_all_observations_that_were_learned_from(
    compile_step):
  learner = _learner(lambda: _agent(compiled=compile_step, normalise=True),
                     _squares, compile_step=compile_step)
  unrolls = [_unroll(seed=i) for i in range(3)]
  for unroll in unrolls:
    learner.update(unroll)
  learner.update(_with_nan(_unroll(seed=9)))  # It is skipped.
  # x_0 was counted with the unroll before.
  observed = np.concatenate(
      [u.env_outputs.observation.numpy()[1:] for u in unrolls]
  ).astype(np.float64).reshape([-1, *SHAPE])
  mean, variance = learner.agent.normaliser.moments
  np.testing.assert_allclose(mean, observed.mean(axis=0), atol=1e-12)
  np.testing.assert_allclose(variance, observed.var(axis=0), rtol=1e-9)


def test_after_step_is_given_new_parameters_and_totals():
  seen = []

  def loss_fn(agent, unroll):
    return types.LossOutput(
        agent.factor**2, {}, (tf.reduce_sum(unroll.env_outputs.reward),))

  def after_step(agent, totals):
    variable, = seen
    variable.assign([agent.factor, *totals])

  learner = _learner(_Scale, loss_fn, after_step=after_step)
  seen.append(tf.Variable([0., 0.]))
  unroll = _unroll()
  learner.update(unroll)
  factor, total = seen[0].numpy()
  assert factor == learner.agent.factor.numpy() < 1
  np.testing.assert_allclose(
      total, np.sum(unroll.env_outputs.reward), rtol=1e-5)


def test_gradients_and_apply_are_the_update():
  whole, apart = _learner(), _learner()
  for i in range(2):
    metrics = whole.update(_unroll(seed=i))
    applied = apart.apply(apart.gradients(_unroll(seed=i)))
    apart.num_frames.assign_add(FRAMES_PER_UPDATE)
    for name in 'gradient_norm', 'learning_rate':
      np.testing.assert_allclose(applied[name], metrics[name], rtol=1e-5)
  for x, y, v in zip(_parameters(apart), _parameters(whole),
                     whole.agent.trainable_variables):
    np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6, err_msg=v.name)


def test_hyperparameters_are_read_at_every_update_and_nothing_is_retraced():
  num_traces = 0

  def entropy_bonus(agent, unroll):
    """Computes a loss whose gradient is the entropy cost."""
    nonlocal num_traces
    del unroll
    num_traces += 1
    return types.LossOutput(
        hyperparameters.present().entropy_cost * agent.factor, {})

  learner = _learner(_Scale, entropy_bonus, momentum=0., annealed=False)
  hyperparameters = learner.hyperparameters
  mean_square, factor = 1.0, 1.0
  for learning_rate, epsilon, entropy_cost, max_norm in (
      (0.05, 0.02, 0.01, 0.7), (0.1, 0.5, 0.3, 0.7), (0.1, 0.5, 3.0, 2.0),
      (0.01, 1e-5, 3.0, 9.0)):
    hyperparameters.learning_rate.assign(learning_rate)
    hyperparameters.epsilon.assign(epsilon)
    hyperparameters.entropy_cost.assign(entropy_cost)
    hyperparameters.max_gradient_norm.assign(max_norm)
    metrics = learner.update(_unroll())
    gradient = min(entropy_cost, max_norm)
    mean_square = 0.9 * mean_square + 0.1 * gradient**2
    factor -= learning_rate * gradient / np.sqrt(mean_square + epsilon)
    np.testing.assert_allclose(metrics['gradient_norm'], entropy_cost,
                               rtol=1e-6)
    np.testing.assert_allclose(learner.agent.factor.numpy(), factor, rtol=1e-5)
  assert num_traces == 1


@pytest.mark.parametrize('annealed_share,costs', [
    (1., (0.5, 0.40625, 0.3125, 0.21875, 0.125, 0.125)),
    (0.5, (0.5, 0.5, 0.5, 0.3125, 0.125, 0.125))])
def test_entropy_cost_and_learning_rate_fall_linearly_with_the_frames(
    annealed_share, costs):
  learner = _learner(
      _Scale, lambda agent, unroll: types.LossOutput(
          hyperparameters.present().entropy_cost * agent.factor, {}),
      total_frames=4 * FRAMES_PER_UPDATE, annealed_share=annealed_share,
      impala={'entropy_cost': 0.5, 'entropy_annealed_to': 0.25})
  hyperparameters = learner.hyperparameters
  for expected in costs:
    assert hyperparameters.row()['entropy_cost'] == expected
    metrics = learner.update(_unroll())
    assert metrics['gradient_norm'] == expected
    np.testing.assert_allclose(
        metrics['learning_rate'],
        CONFIG.optimizer.learning_rate * (expected - 0.125) / 0.375, rtol=1e-6)


@pytest.mark.parametrize('compile_step', [False, True])
def test_stacked_frames_are_stacked_again_within_the_step(compile_step):
  unroll = _unroll()
  travelling = tf.constant(np.random.default_rng(0).integers(
      1, 256, size=[T + STACK, B, 2, 4]).astype(np.uint8))
  stacks = frame_stacks.restack(travelling, unroll.env_outputs.step_type)
  assert stacks.shape == [T + 1, B, 2, 4, STACK]
  unroll = unroll._replace(env_outputs=unroll.env_outputs._replace(
      observation=travelling))
  np.testing.assert_array_equal(_observed(unroll, compile_step), stacks)


@pytest.mark.parametrize('shape,dtype', [
    (SHAPE, np.float32), ((8, 8, 3), np.uint8), ((8, 8), np.uint8)])
def test_other_observations_are_left_as_they_are(shape, dtype):
  observation = np.random.default_rng(0).integers(
      9, size=(T + 1, B) + shape).astype(dtype)
  unroll = _unroll()
  unroll = unroll._replace(env_outputs=unroll.env_outputs._replace(
      observation=tf.constant(observation)))
  np.testing.assert_array_equal(_observed(unroll), observation)


@pytest.mark.parametrize('torso', [
    'shallow', pytest.param('deep', marks=pytest.mark.slow)])
def test_compiled_step_in_bfloat16_is_close_to_that_in_float32(torso):
  """The step is as on GPU and TPU: XLA, mixed precision, frames re-stacked.

  On a CPU, with images that are as small as the torso allows.
  """
  shape = (20, 20) if torso == 'shallow' else (8, 8)
  frames = np.random.default_rng(0).integers(
      256, size=(T + STACK, B) + shape).astype(np.uint8)
  unroll = _unroll()
  unroll = unroll._replace(env_outputs=unroll.env_outputs._replace(
      observation=tf.constant(frames)))
  changes = {}
  for precision, compile_step in (('float32', False), ('mixed_bfloat16', True)):

    def make_agent(precision=precision):
      tf.random.set_seed(5)
      agent = agent_lib.Agent(distributions.Categorical(A), config.AgentConfig(
          torso=torso, hidden_size=8), precision)
      agent.build(specs.Array(shape + (STACK,), np.uint8))
      return agent

    learner = _learner(make_agent, _squares, compile_step=compile_step)
    variables = learner.agent.trainable_variables
    assert {v.dtype for v in variables} == {tf.float32}
    before = [v.numpy() for v in variables]
    learner.update(unroll)
    changes[precision] = np.concatenate(
        [(v.numpy() - b).ravel() for v, b in zip(variables, before)])
  full, mixed = changes.values()
  assert np.linalg.norm(full) > 0
  assert not np.array_equal(full, mixed)
  assert full @ mixed / np.linalg.norm(full) / np.linalg.norm(mixed) > 0.99


def _on_two_cpus():
  """Takes steps in a process of `two_cpus`."""
  results = []
  for strategy in (
      tf.distribute.OneDeviceStrategy('/cpu:0'),
      tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'])):
    learner = _learner(lambda: _agent(use_lstm=True, normalise=True), _squares,
                       strategy, num_replayed=1)
    agent = learner.agent
    for i in range(2):
      metrics = learner.update(_with_origin(
          _unroll(agent.initial_state(B), seed=i), 1, B - 1))
    learner.update(_with_origin(
        _with_nan(_unroll(agent.initial_state(B))), 1, B - 1))
    results.append((
        [[x.numpy() for x in strategy.experimental_local_results(v)]
         for v in agent.variables],
        {name: float(m) for name, m in metrics.items()},
        learner.num_updates.numpy(), learner.num_frames.numpy()))
  return results


@pytest.mark.slow
def test_two_replicas_take_the_step_of_one_with_the_whole_batch():
  one, two = two_cpus.call(_on_two_cpus)
  for (whole,), replicas in zip(one[0], two[0]):
    assert len(replicas) == 2
    for replica in replicas:
      np.testing.assert_allclose(replica, whole, rtol=1e-4, atol=1e-6)
  # Replicas have two unrolls each, but the batch has a single replayed one.
  for name in ('gradient_norm', 'learning_rate', 'error', 'of_unroll',
               'fresh/of_unroll', 'replayed/of_unroll', 'foreign/of_unroll'):
    np.testing.assert_allclose(two[1][name], one[1][name], rtol=1e-4)
  assert one[2:] == two[2:] == (3, 3 * FRAMES_PER_UPDATE * (B - 1) // B)


def test_update_makes_few_tensors():
  # On Python 3.11 TensorFlow leaves a block of memory behind for each.
  learner = _learner(_Scale, lambda agent, unroll: types.LossOutput(
      agent.factor**2, {f'metric_{i}': agent.factor for i in range(100)}))
  unroll = _unroll()
  learner.update(unroll)
  before = sys.getallocatedblocks()
  for _ in range(20):
    learner.update(unroll)
  assert sys.getallocatedblocks() - before < 20 * 50
