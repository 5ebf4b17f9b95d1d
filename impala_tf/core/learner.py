"""The learner: updates an agent's parameters from a batch of unrolls."""

import functools
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import updates
from impala_tf.optimizers import hyperparameters as hyperparameters_lib

LossFn = Callable[[agent_lib.Agent, types.Unroll], types.LossOutput]
AfterStepFn = Callable[[agent_lib.Agent, Any], None]


class Gradients(NamedTuple):
  """The gradients of a replica's unrolls, before they are summed or clipped."""
  values: list[tf.Tensor]  # One for each of the agent's trainable variables.
  totals: Any  # See `types.LossOutput.totals`, of these unrolls alone.
  metrics: dict[str, tf.Tensor]  # See `types.LossOutput.metrics`.
  # See `Agent.observation_totals`; () if observations are not normalised.
  observation_totals: Any = ()


def compute_gradients(agent: agent_lib.Agent, loss_fn: LossFn,
                      unroll: types.Unroll) -> Gradients:
  """Computes a loss's gradients at an agent's present parameters.

  They are sums over the unrolls, leading [T+1, B], as losses are. Frames are
  not re-stacked yet.
  """
  unroll = unroll._replace(env_outputs=agent_lib.restacked(unroll.env_outputs))
  variables = agent.trainable_variables
  with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(variables)
    loss_output = loss_fn(agent, unroll)
  # An embedding's gradient comes in slices, whose norm would be that of each
  # occurrence of a word by itself.
  values = [tf.convert_to_tensor(gradient) for gradient in
            tape.gradient(loss_output.loss, variables,
                          unconnected_gradients='zero')]  # If one is unused.
  observed: Any = () if agent.normaliser is None else (
      agent.observation_totals(unroll.env_outputs))
  return Gradients(values, loss_output.totals, loss_output.metrics, observed)


class Objective(NamedTuple):
  """An algorithm's `loss` and `after_step`; see `algorithm.Algorithm`."""
  loss: LossFn
  after_step: AfterStepFn = lambda agent, totals: None


class Settings(NamedTuple):
  """Numbers and switches of a learner."""
  total_frames: int  # Frames after which an annealed learning rate is 0.
  annealed: bool  # Whether the learning rate falls linearly to 0.
  annealed_share: float  # Last share of the frames, in which values fall.
  frames_per_step: int  # Environment frames in an agent step.
  compile_step: bool  # Compiles the step with XLA.
  # Names of metrics that `update` also returns by unroll, under 'unroll/'.
  unroll_metrics: Sequence[str] = ()
  num_replayed: int = 0  # Replayed unrolls of a batch, its last; no new frames.
  learns_from_fresh: bool = True  # Whether it learns from the others.


class Learner:
  """A learner that updates an agent's parameters.

  An update is `gradients` and then `apply`. Both can also be used apart, inside
  or outside of a `tf.function`, if gradients travel between processes.

  Attributes:
    agent, optimizer: the parameters that are updated, and their slots.
    hyperparameters: variables that every update reads, so they may be assigned
      between two updates.
    num_updates: int64 variable, number of calls of `update`; skipped updates
      count, too. Read it with `.numpy()`: on several devices `int()` fails.
    num_frames: int64 variable, environment frames learned from by all learners
      of an update, read likewise.
  """

  def __init__(self, agent: agent_lib.Agent, objective: Objective,
               make_optimizer: Callable[[Callable[[], tf.Tensor]], Any],
               hyperparameters: hyperparameters_lib.Hyperparameters,
               strategy: tf.distribute.Strategy, settings: Settings):
    """Makes counters, the optimiser, and the `remaining_share` of a run.

    Args:
      agent: built, as `hyperparameters` are, within the scope of `strategy`.
      make_optimizer: function that makes a `rmsprop.RMSProp`, or another with
        its methods, of a function that returns the learning rate.
      strategy: strategy over the devices of all learners; the number of this
        one's divides B.
    """
    self.agent = agent
    self.hyperparameters = hyperparameters
    self._objective = objective
    self._strategy = strategy
    self._num_local = len(strategy.extended.worker_devices)
    self._num_learners = strategy.num_replicas_in_sync // self._num_local
    self._settings = settings
    with strategy.scope():
      self.num_updates = tf.Variable(0, trainable=False, dtype=tf.int64)
      self.num_frames = tf.Variable(0, trainable=False, dtype=tf.int64)
      hyperparameters.remaining_share = functools.partial(
          updates.remaining_share, self.num_frames, settings.total_frames,
          settings.annealed_share)
      self.optimizer = make_optimizer(self._learning_rate)
      self.optimizer.build(agent.trainable_variables)
    # Without AutoGraph, which takes three quarters of the time to build agent
    # and learner: no `if` or loop here depends on a tensor.
    self._replica_step = tf.function(
        self._step, jit_compile=settings.compile_step, autograph=False)
    self._distributed_step = tf.function(self._run, autograph=False)
    self._metric_names: tuple[str, ...] = ()

  @property
  def saved(self) -> tf.Module:
    """The learner's part of a checkpoint: its counts and its optimiser."""
    saved = tf.Module()
    saved.num_updates = self.num_updates
    saved.num_frames = self.num_frames
    saved.optimizer = self.optimizer
    return saved

  def update(self, unroll: types.Unroll) -> dict[str, np.float32 | np.ndarray]:
    """Makes an update from one batch, leading [T+1, B], and waits for its end.

    Frames are not re-stacked yet.

    Returns:
      Metrics of the batches of all learners together; see `types.LossOutput`.
      If unrolls are replayed, metrics of unrolls also come for each kind (see
      `types.Origin.kinds`); one without unrolls has NaN, or 0 for losses, which
      are sums. Metrics under 'unroll/' are float32 [B].
    """
    num_steps, batch_size = unroll.env_outputs.reward.shape
    num_fresh = batch_size - self._settings.num_replayed
    if self._settings.num_replayed:
      # Keys are for the replay alone.
      unroll = unroll._replace(origin=unroll.origin._replace(keys=()))
    num_frames = (self._num_learners * (num_steps - 1) * num_fresh *
                  self._settings.frames_per_step)
    if not self._settings.learns_from_fresh:
      unroll = _map_batch_axis(unroll, lambda tensor, axis: (
          tensor[num_fresh:] if axis == 0 else tensor[:, num_fresh:]))
    metrics, columns = self._distributed_step(self._split(unroll), num_frames)
    return {**dict(zip(self._metric_names, metrics.numpy())),
            **{f'unroll/{name}': column.numpy()
               for name, column in columns.items()}}

  def gradients(self, unroll: types.Unroll) -> Gradients:
    """Computes `Gradients` of [T+1, B] unrolls; see `compute_gradients`."""
    return compute_gradients(self.agent, self._objective.loss, unroll)

  def apply(self, gradients: Gradients) -> dict[str, tf.Tensor]:
    """Sums gradients over the replicas, clips them and updates the parameters.

    If their norm is not finite nothing is changed. Returns 'gradient_norm',
    before clipping, and 'learning_rate', float32 [] each.
    """
    # Losses are sums over the batch, hence so are gradients over replicas.
    values, totals = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, (gradients.values, gradients.totals))
    observed = gradients.observation_totals
    if self.agent.normaliser is not None:
      # Apart: a reduction is of one type.
      observed = tf.distribute.get_replica_context().all_reduce(
          tf.distribute.ReduceOp.SUM, observed)
    values, norm = updates.clip_by_global_norm(
        values, self.hyperparameters.max_gradient_norm)

    def step():
      self.optimizer.apply_gradients(
          zip(values, self.agent.trainable_variables))
      self._objective.after_step(self.agent, totals)
      if self.agent.normaliser is not None:
        self.agent.normaliser.update(observed)

    # All or nothing: a single NaN would never leave the parameters again.
    tf.cond(tf.math.is_finite(norm), step, lambda: None)
    return {'gradient_norm': norm, 'learning_rate': self._learning_rate()}

  def _learning_rate(self) -> tf.Tensor:
    share = (self.hyperparameters.remaining_share()
             if self._settings.annealed else 1.)
    return self.hyperparameters.learning_rate * share

  def _step(self, unroll: types.Unroll) -> dict[str, tf.Tensor]:
    gradients = self.gradients(unroll)
    metrics = {name: tf.cast(value, tf.float32) for name, value in
               {**gradients.metrics, **self.apply(gradients)}.items()}
    for name, value in metrics.items():
      if value.shape not in ((), unroll.level_index.shape):
        raise ValueError(f'the metric {name!r} is {value.shape}, not [B] or []')
    return metrics

  def _split(self, unroll: types.Unroll):
    if self._num_local == 1:
      return unroll

    def share(context: tf.distribute.ReplicaContext):
      index = context.replica_id_in_sync_group % self._num_local

      return _map_batch_axis(unroll, lambda tensor, axis: (
          tf.split(tensor, self._num_local, axis)[index]))

    return self._strategy.experimental_distribute_values_from_function(share)

  def _run(self, unroll: types.Unroll, num_frames: int
           ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Runs the step in every replica, reduces metrics, then counts the update.

    Returns the metrics as one tensor, float32 [K], since on Python 3.11
    TensorFlow leaks 16 bytes of each; tracing stores their names. Then come the
    metrics that are wanted unroll by unroll, float32 [B] each.
    """
    metrics = self._strategy.run(self._replica_step, args=(unroll,))
    by_unroll, reduced = {}, {}
    for name, value in metrics.items():
      if self._strategy.experimental_local_results(value)[0].shape.rank == 1:
        by_unroll[name] = value
      else:
        reduced[name] = self._strategy.reduce('MEAN', value, axis=None)
    columns, indices = self._gather(by_unroll, unroll.origin)
    for name, values in columns.items():
      reduce = tf.reduce_sum if name.startswith('loss/') else tf.reduce_mean
      reduced[name] = reduce(values)
      for kind, index in indices.items():
        reduced[f'{kind}/{name}'] = reduce(tf.gather(values, index))
    self._metric_names = tuple(reduced)
    means = tf.stack(list(reduced.values()))
    with tf.control_dependencies([means, *columns.values()]):
      self.num_updates.assign_add(1)
      self.num_frames.assign_add(num_frames)
    return means, {
        name: column for name, column in columns.items()
        if name in self._settings.unroll_metrics}

  def _gather(self, by_unroll: dict, origin: types.Origin) -> tuple[dict, dict]:
    """Gathers metrics of unrolls, [B], and lists the unrolls of each kind."""
    if not by_unroll:
      return {}, {}
    masks = {}
    if self._settings.num_replayed:
      masks = self._strategy.run(types.Origin.kinds, args=(origin,))
      if not self._settings.learns_from_fresh:
        del masks['fresh']
    # As one tensor, since each costs a message between learners.
    table = self._strategy.gather(
        self._strategy.run(
            lambda *columns: tf.stack(
                [tf.cast(c, tf.float32) for c in columns], axis=1),
            args=(*by_unroll.values(), *masks.values())), axis=0)
    columns = iter(tf.unstack(table, len(by_unroll) + len(masks), axis=1))
    return ({name: next(columns) for name in by_unroll},
            {kind: tf.where(next(columns))[:, 0] for kind in masks})


def _map_batch_axis(unroll: types.Unroll,
                    take: Callable[..., tf.Tensor]) -> types.Unroll:
  """Maps `take`, a function of a tensor and its batch axis, over an unroll."""
  def along(axis, values):
    return tf.nest.map_structure(functools.partial(take, axis=axis), values)

  env_outputs, agent_outputs, *others = unroll
  return types.Unroll(along(1, env_outputs), along(1, agent_outputs),
                      *(along(0, values) for values in others))
