"""One of several learners, or one alone with all their batches; a program.

    python -m tests.replica_process OUTPUT TASK [ADDRESS...]

writes to OUTPUT.npz what came of a few updates. One of several goes on with
turns until it is killed or finds that another is.
"""

import os
import sys
import time

from dm_env import specs
import numpy as np
import tensorflow as tf

from impala_tf import agent as agent_lib
from impala_tf import config
from impala_tf import distributions
from impala_tf import learner as learner_lib
from impala_tf import optimizers
from impala_tf import replicas
from impala_tf import types
from impala_tf import waiting
from impala_tf.algorithms import impala_popart

NUM_LEARNERS = 2
T, B, A, SHAPE = 5, 3, 3, (4,)
NUM_FRESH = 2
NUM_UPDATES = 6
NAN_UPDATE = 2  # Of which one learner's batch has a NaN.
FRAMES_PER_STEP = 4
MAX_NORM = 0.5  # Below most gradients' norms.
# What a log gathers, by learner: two kinds of array and an empty one.
ARRAYS = ([np.array([[1.5, 2.5]], np.float32), np.array([7, 2**40]),
           np.zeros([0], np.int64)],
          [np.array([[-1., np.pi]], np.float32), np.array([-1, 0]),
           np.zeros([0], np.int64)])


def _unroll(update, learner, core_state):
  """The batch of a learner, of which the last unroll is a replayed one."""
  rng = np.random.default_rng([update, learner])
  shape = [T + 1, B]
  reward = rng.normal(size=shape).astype(np.float32)
  if update == NAN_UPDATE and learner == 1:
    reward[2, 1] = np.nan
  return types.Unroll(
      env_outputs=types.EnvOutput(
          step_type=(rng.random(shape) < 0.8).astype(np.uint8),
          reward=reward,
          discount=(rng.random(shape) < 0.9).astype(np.float32),
          observation=rng.normal(size=shape + [*SHAPE]).astype(np.float32),
          episode_return=np.zeros(shape, np.float32),
          episode_steps=np.zeros(shape, np.int32)),
      agent_outputs=types.AgentOutput(
          action=rng.integers(A, size=shape).astype(np.int32),
          policy_logits=rng.normal(size=shape + [A]).astype(np.float32)),
      core_state=tf.nest.map_structure(
          lambda t: (rng.normal(size=t.shape) * 2).astype(
              t.dtype.as_numpy_dtype), core_state),
      policy_version=np.zeros([B], np.int64),
      level_index=rng.integers(2, size=[B]).astype(np.int32))


def _together(unrolls):
  """One batch of several: the fresh unrolls of all, then the replayed ones."""

  def concatenate(*arrays):
    axis = arrays[0].shape.index(B)
    parts = [np.split(a, [NUM_FRESH], axis) for a in arrays]
    return np.concatenate([*(p[0] for p in parts), *(p[1] for p in parts)],
                          axis)

  return tf.nest.map_structure(concatenate, *unrolls)


def _make_learner(strategy, num_replayed):
  impala = config.ImpalaConfig(popart_step_size=0.1)
  with strategy.scope():
    tf.random.set_seed(5)
    agent = agent_lib.Agent(
        distributions.Categorical(A),
        config.AgentConfig(torso='mlp', use_lstm=True, hidden_size=7,
                           lstm_size=6), num_tasks=2)
    agent.build(specs.Array(SHAPE, np.float32))
  return learner_lib.Learner(
      agent, lambda agent, unroll: impala_popart.loss(agent, unroll, impala),
      lambda rate: optimizers.RMSProp(
          rate, decay=0.9, epsilon=0.02, momentum=0.6),
      strategy, learning_rate=0.05, total_frames=10_000,
      frames_per_step=FRAMES_PER_STEP, max_gradient_norm=MAX_NORM,
      compile_step=False, num_replayed=num_replayed,
      after_step=lambda agent, totals: impala_popart.after_step(
          agent, totals, impala))


class _Batches:
  """Has one for every turn."""
  refusals = None

  def next(self, should_stop):
    return None if should_stop() else 'batch'


def main(output, task, *addresses):
  task = int(task)
  if addresses:
    learners = replicas.join(
        replicas.Place(task, addresses), lambda cause: print(cause, flush=True))
  else:
    learners = replicas.alone()
  num_replayed = (1 if addresses else NUM_LEARNERS) * (B - NUM_FRESH)
  learner = _make_learner(learners.strategy, num_replayed)
  variables = [*learner.agent.variables, *learner.optimizer.variables]
  rows, values = [], []
  for update in range(NUM_UPDATES):
    unrolls = [_unroll(update, i, learner.agent.initial_state(B))
               for i in range(NUM_LEARNERS)]
    batch = unrolls[task] if addresses else _together(unrolls)
    metrics = learner.update(tf.nest.map_structure(tf.constant, batch))
    rows.append([float(metrics[name]) for name in sorted(metrics)])
    values.append(np.concatenate([v.numpy().ravel() for v in variables]))
  gathered = learners.concatenate(ARRAYS[task])
  refusals = [_refusal(learners.require_same, config.Config(), 1),
              _refusal(learners.require_same, config.Config(), 1 + task),
              _refusal(learners.require_same, config.Config(
                  learner=config.LearnerConfig(batch_size=1 + task)), 1),
              _refusal(learners.require_same_parameters, values[-1], 7),
              _refusal(learners.require_same_parameters, values[-1], 7 + task),
              _refusal(learners.require_same_parameters, values[-task], 7)]
  np.savez(output, values=values, rows=rows, names=sorted(metrics),
           num_updates=learner.num_updates.numpy(),
           num_frames=learner.num_frames.numpy(),
           refusals=refusals,
           **{f'gathered_{i}': array for i, array in enumerate(gathered)})
  print('done', flush=True)
  if addresses:
    _take_turns(learners)


def _refusal(require, *arguments):
  try:
    require(*arguments)
  except config.UserError as error:
    return str(error)
  return ''


def _take_turns(learners):
  """With batches at all times, until another learner is lost."""
  reader = learners.wrap_reader(_Batches())
  try:
    while True:
      assert reader.next(lambda: False) == 'batch'
      time.sleep(0.01)
  except waiting.PeerLost as error:
    print(f'error: {error}', flush=True)
    os._exit(1)  # As launch/role.py does.


if __name__ == '__main__':
  main(*sys.argv[1:])
