"""The learner: from a batch of unrolls to new parameters."""

from typing import Any, Callable, Dict

import tensorflow as tf

from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import frame_stacks
from impala_tf.maths import optimizers

LossFn = Callable[[agent_lib.Agent, types.Unroll], types.LossOutput]
AfterStepFn = Callable[[agent_lib.Agent, Any], None]


class Learner(tf.Module):
  """Updates an agent's parameters.

  Attributes:
    num_updates: int64 variable, how often `update` was called. Those count,
      too, that were skipped because their gradients were not finite: they left
      parameters and optimiser as they were, but have used up a batch. Read it
      with `.numpy()`: over several devices `int()` does not take it.
    num_frames: int64 variable, environment frames learned from; likewise. Those
      of all learners, where an update is of several.
  """

  def __init__(self, agent: agent_lib.Agent, loss_fn: LossFn,
               make_optimizer: Callable[[Callable[[], tf.Tensor]], Any],
               strategy: tf.distribute.Strategy, *, learning_rate: float,
               total_frames: int, frames_per_step: int,
               max_gradient_norm: Any, compile_step: bool,
               num_replayed: int = 0,
               after_step: AfterStepFn = lambda agent, totals: None):
    """Builds the optimiser.

    Args:
      agent: built, within the scope of `strategy`.
      loss_fn: agent and time-major unroll to `types.LossOutput`.
      make_optimizer: from a callable that returns the learning rate, to an
        `optimizers.RMSProp` or one with its methods.
      strategy: over the learner's devices, by whose number B must divide; and
        over those of other learners, where an update is of several.
      learning_rate: at frame 0.
      total_frames: where the learning rate reaches 0.
      frames_per_step: environment frames in an agent step.
      max_gradient_norm: of all gradients together; None for no clipping.
      compile_step: with XLA.
      num_replayed: so many unrolls of a batch, its last ones, were learned from
        before: they count no frames, and metrics tell them apart.
      after_step: is given the agent with its new parameters, and the loss's
        totals of the whole batch; in every replica.
    """
    super().__init__(name='learner')
    self.agent = agent
    self._loss_fn = loss_fn
    self._strategy = strategy
    self._num_local = len(strategy.extended.worker_devices)
    self._num_learners = strategy.num_replicas_in_sync // self._num_local
    self._frames_per_step = frames_per_step
    self._max_gradient_norm = max_gradient_norm
    self._num_replayed = num_replayed
    self._after_step = after_step
    with strategy.scope():
      self.num_updates = tf.Variable(0, trainable=False, dtype=tf.int64)
      self.num_frames = tf.Variable(0, trainable=False, dtype=tf.int64)
      self._learning_rate = lambda: optimizers.linear_anneal(
          learning_rate, self.num_frames, total_frames)
      self.optimizer = make_optimizer(self._learning_rate)
      self.optimizer.build(agent.trainable_variables)
    # Without AutoGraph, which takes three quarters of the time to build agent
    # and learner and has nothing to convert: no `if` or loop here depends on a
    # tensor.
    self._replica_step = tf.function(self._step, jit_compile=compile_step,
                                     autograph=False)
    self._distributed_step = tf.function(self._run, autograph=False)

  def update(self, unroll: types.Unroll) -> Dict[str, tf.Tensor]:
    """Learns from one batch.

    Args:
      unroll: leading [T+1, B], frames not yet re-stacked; this learner's own.

    Returns:
      Metrics, float32 [] each, of the batches of all learners together; see
      `types.LossOutput`. Where unrolls are replayed, those that each unroll has
      of its own also of either part, under 'fresh/' and 'replayed/'.
    """
    num_steps, batch_size = unroll.env_outputs.reward.shape
    num_fresh = batch_size - self._num_replayed
    return self._distributed_step(
        self._split(unroll), num_fresh,
        self._num_learners * (num_steps - 1) * num_fresh *
        self._frames_per_step)

  def _split(self, unroll: types.Unroll):
    """Shares the batch out over the replicas here."""
    if self._num_local == 1:
      return unroll

    def part(context: tf.distribute.ReplicaContext):
      def of(axis):
        return lambda t: tf.split(t, self._num_local, axis)[
            context.replica_id_in_sync_group % self._num_local]
      return types.Unroll(
          env_outputs=tf.nest.map_structure(of(1), unroll.env_outputs),
          agent_outputs=tf.nest.map_structure(of(1), unroll.agent_outputs),
          core_state=tf.nest.map_structure(of(0), unroll.core_state),
          policy_version=of(0)(unroll.policy_version),
          level_index=of(0)(unroll.level_index))

    return self._strategy.experimental_distribute_values_from_function(part)

  def _run(self, unroll, num_fresh: int,
           num_frames: int) -> Dict[str, tf.Tensor]:
    metrics = self._strategy.run(self._replica_step, args=(unroll,))
    self.num_updates.assign_add(1)
    self.num_frames.assign_add(num_frames)
    of_unrolls, reduced = {}, {}
    for name, value in metrics.items():
      if self._strategy.experimental_local_results(value)[0].shape.rank == 1:
        of_unrolls[name] = value
      else:
        reduced[name] = self._strategy.reduce('MEAN', value, axis=None)
    if of_unrolls:
      # As one tensor, since each costs a message where learners are several.
      table = self._strategy.gather(
          self._strategy.run(lambda *columns: tf.stack(columns, axis=1),
                             args=(*of_unrolls.values(),)), axis=0)
      columns = tf.unstack(table, len(of_unrolls), axis=1)
      for name, column in zip(of_unrolls, columns):
        reduced.update(self._reduce(name, column, num_fresh))
    return reduced

  def _reduce(self, name: str, of_unrolls: tf.Tensor,
              num_fresh: int) -> Dict[str, tf.Tensor]:
    """Sum or mean over the unrolls of all learners."""
    of_unrolls = tf.reshape(of_unrolls, [self._num_learners, -1])
    parts = {name: of_unrolls}
    if self._num_replayed:
      parts[f'fresh/{name}'] = of_unrolls[:, :num_fresh]
      parts[f'replayed/{name}'] = of_unrolls[:, num_fresh:]
    reduce = tf.reduce_sum if name.startswith('loss/') else tf.reduce_mean
    return {part: reduce(of) for part, of in parts.items()}

  def _step(self, unroll: types.Unroll) -> Dict[str, tf.Tensor]:
    """One replica's share of an update."""
    env_outputs = unroll.env_outputs
    # More frames than steps: each travelled once, to be stacked again here.
    if env_outputs.observation.shape[0] > env_outputs.step_type.shape[0]:
      stacked = frame_stacks.restack(
          env_outputs.observation, env_outputs.step_type)
      unroll = unroll._replace(
          env_outputs=env_outputs._replace(observation=stacked))
    variables = self.agent.trainable_variables
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(variables)
      loss_output = self._loss_fn(self.agent, unroll)
    # Those of an embedding come in slices, whose norm would be that of each
    # occurrence of a word by itself.
    gradients = [tf.convert_to_tensor(gradient) for gradient in
                 tape.gradient(loss_output.loss, variables)]
    # Losses are sums over the batch, hence so are gradients over replicas.
    gradients, totals = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, (gradients, loss_output.totals))
    gradients, norm = optimizers.clip_by_global_norm(
        gradients, self._max_gradient_norm)

    def apply():
      self.optimizer.apply_gradients(zip(gradients, variables))
      self._after_step(self.agent, totals)

    # All or nothing: a single NaN would never leave the parameters again.
    tf.cond(tf.math.is_finite(norm), apply, lambda: None)
    return dict(loss_output.metrics, gradient_norm=norm,
                learning_rate=self._learning_rate())
