"""IMPALA in one file, which learns Catch within a minute on two cores.

    .venv/bin/python examples/impala_in_one_file.py

    actors ── unrolls ──▶ queue ──▶ batches ──▶ learner
       ▲                                           │
       └───────────────── weights ◀────────────────┘

The file is a map of the package. A comment above each part names the modules
that do the same there, and what else they can do. Letters and equations are
those of Espeholt et al. 2018 (arXiv:1802.01561v3). Shapes: T time, B batch, A
actions, E environments of an actor.
"""

import collections
import multiprocessing
import os
import signal
import sys
from typing import NamedTuple

os.environ.setdefault('no_grpc_proxy', 'localhost')  # Else gRPC asks a proxy.
# Set before TensorFlow is imported, as impala_tf/__init__.py does.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import numpy as np
import reverb
import tensorflow as tf

from impala_tf.envs import catch

# impala_tf/config/config.py: every option with its unit, range and source. The
# learner's numbers are those of configs/catch.gin and its defaults.
NUM_ACTORS = 2
NUM_ENVS = 32  # E. Reverb warns of more than 50 unrolls on their way.
UNROLL_LENGTH = 40  # T.
BATCH_SIZE = 32  # B.
QUEUE_CAPACITY = 16  # Unrolls. A short queue keeps the policy lag small.
HIDDEN_SIZE = 64
DISCOUNT = 0.99  # gamma.
BASELINE_COST = 0.5
ENTROPY_COST = 0.01
LEARNING_RATE = 0.004  # Falls linearly to 0 at TOTAL_FRAMES.
DECAY = 0.99
EPSILON = 0.01
TOTAL_FRAMES = 500_000
GOAL = 0.95  # Mean return of 1,000 episodes; 1 is perfect, random play -0.6.
LOG_INTERVAL_UPDATES = 20
PATIENCE_MS = 60_000  # What takes longer has failed.
SEED = 1
BOARD, NUM_ACTIONS = (10, 5), 3  # Catch's observations, and A.


# impala_tf/types.py: also step types, memory, instructions, action masks.
class Step(NamedTuple):
  """All that belongs to an observation x_t, of E environments in an actor.

  The action at x_t was computed from x_t; its reward and discount come with
  x_{t+1}. So the learner pairs `action[:-1]` with `reward[1:]`. An unroll,
  [T+1], ends with the first step of the next. Batches of unrolls are [T+1, B].
  """
  reward: np.ndarray  # float32, of the action before x_t.
  discount: np.ndarray  # float32, 0 if that action ended the episode, else 1.
  observation: np.ndarray  # float32 [..., 10, 5].
  action: np.ndarray  # int32, sampled from the behaviour policy mu.
  policy_logits: np.ndarray  # float32 [..., A], of mu.
  policy_version: np.ndarray  # int64, learner updates behind mu.


# impala_tf/maths/vtrace.py: also other thresholds, lambda, and time limits.
def vtrace(log_rhos, discounts, rewards, values, bootstrap_value):
  """Computes V-trace targets v_t (equation 1) and advantages (section 4.2).

  Remark 1 turns equation 1 into a recursion that begins with v_T = V(x_T):

      v_t = V(x_t) + delta_t V + gamma c_t (v_{t+1} - V(x_{t+1}))
      delta_t V = rho_t (r_t + gamma V(x_{t+1}) - V(x_t))
      advantage_t = rho_t (r_t + gamma v_{t+1} - V(x_t))
      rho_t = c_t = min(1, pi(a_t|x_t) / mu(a_t|x_t))

  Arguments and results are float32 [T, B], t from 0 to T-1, except
  `bootstrap_value`, V(x_T), [B]. Discounts are gamma, or 0 if a_t ended
  the episode. Results have no gradient.
  """
  rhos = tf.minimum(1., tf.exp(log_rhos))
  next_values = tf.concat([values[1:], bootstrap_value[tf.newaxis]], axis=0)
  deltas = rhos * (rewards + discounts * next_values - values)
  vs_minus_values = tf.scan(
      lambda later, step: step[0] + step[1] * later, (deltas, discounts * rhos),
      initializer=tf.zeros_like(bootstrap_value), reverse=True)
  vs = values + vs_minus_values
  next_vs = tf.concat([vs[1:], bootstrap_value[tf.newaxis]], axis=0)
  advantages = rhos * (rewards + discounts * next_vs - values)
  return tf.stop_gradient(vs), tf.stop_gradient(advantages)


# impala_tf/agents/networks.py: also convolutions, LSTM and language.
def make_parameters():
  """Draws kernels [inputs, outputs]; variance 1 / inputs but for truncation."""
  parameters = []
  for shape in ((BOARD[0] * BOARD[1], HIDDEN_SIZE), (HIDDEN_SIZE, HIDDEN_SIZE),
                (HIDDEN_SIZE, NUM_ACTIONS), (HIDDEN_SIZE, 1)):
    kernel = tf.random.truncated_normal(shape, stddev=shape[0]**-0.5)
    parameters += [tf.Variable(kernel), tf.Variable(tf.zeros(shape[1:]))]
  return parameters


# impala_tf/agents/agent.py: also memory, and inputs beside an image.
def network(parameters, observations):
  """Computes logits [..., A] and values V [...] of boards [..., 10, 5]."""
  w1, b1, w2, b2, w_policy, b_policy, w_value, b_value = parameters
  shape = observations.shape[:-2]
  boards = tf.reshape(observations, [-1, BOARD[0] * BOARD[1]])
  features = tf.nn.relu(boards @ w1 + b1)
  features = tf.nn.relu(features @ w2 + b2)
  logits = features @ w_policy + b_policy
  values = features @ w_value + b_value
  return tf.reshape(logits, [*shape, NUM_ACTIONS]), tf.reshape(values, shape)


# impala_tf/algorithms/impala.py, impala_tf/maths/losses.py: also ablations.
def loss(parameters, unroll):
  """Sums the losses of section 4.2 over batch and time, to float32 []."""
  logits, values = network(parameters, unroll.observation)
  # x_T is there for its value alone.
  values, bootstrap_value = values[:-1], values[-1]
  actions = unroll.action[:-1]
  log_pi = tf.nn.log_softmax(logits[:-1])
  log_mu = tf.nn.log_softmax(unroll.policy_logits[:-1])
  log_probs = tf.gather(log_pi, actions, batch_dims=2)
  log_rhos = log_probs - tf.gather(log_mu, actions, batch_dims=2)
  vs, advantages = vtrace(
      log_rhos, DISCOUNT * unroll.discount[1:],
      tf.clip_by_value(unroll.reward[1:], -1., 1.), values, bootstrap_value)
  # Sums, not means: published learning rates are for sums.
  policy_gradient_loss = -tf.reduce_sum(log_probs * advantages)
  baseline_loss = 0.5 * tf.reduce_sum((vs - values)**2)
  entropy_loss = tf.reduce_sum(tf.exp(log_pi) * log_pi)
  return (policy_gradient_loss + BASELINE_COST * baseline_loss +
          ENTROPY_COST * entropy_loss)


# impala_tf/optimizers/rmsprop.py: also momentum and bias correction.
def rmsprop(parameter, mean_square, gradient, learning_rate):
  """Takes a step as TensorFlow 1 did: epsilon is inside the root."""
  mean_square.assign(DECAY * mean_square + (1 - DECAY) * gradient**2)
  parameter.assign_sub(
      learning_rate * gradient / tf.sqrt(mean_square + EPSILON))


# impala_tf/core/learner.py: also several devices, clipping, skipped updates.
class Learner:
  """The parameters that are learned, and the optimiser's memory."""

  def __init__(self):
    self.parameters = make_parameters()
    # They start at one, as in TensorFlow 1: the first steps are small.
    self.mean_squares = [tf.Variable(tf.ones_like(p)) for p in self.parameters]
    self.num_frames = tf.Variable(0, dtype=tf.int64)

  @tf.function(autograph=False)
  def update(self, unroll):
    """Learns from a batch, a `Step` with leading [T+1, B]."""
    with tf.GradientTape() as tape:
      total_loss = loss(self.parameters, unroll)
    gradients = tape.gradient(total_loss, self.parameters)
    remaining = tf.cast(1 - self.num_frames / TOTAL_FRAMES, tf.float32)
    for parts in zip(self.parameters, self.mean_squares, gradients):
      rmsprop(*parts, LEARNING_RATE * remaining)
    self.num_frames.assign_add(UNROLL_LENGTH * BATCH_SIZE)


# impala_tf/core/queue.py: also a replay, and fewer columns, which is faster.
def make_server(parameters):
  """Serves the queue of unrolls, and a table of the newest parameters."""
  def of_steps(dtype, *shape):
    return tf.TensorSpec([UNROLL_LENGTH + 1, *shape], dtype)

  unroll = Step(
      of_steps(tf.float32), of_steps(tf.float32), of_steps(tf.float32, *BOARD),
      of_steps(tf.int32), of_steps(tf.float32, NUM_ACTIONS), of_steps(tf.int64))
  return reverb.Server([
      reverb.Table.queue('queue', QUEUE_CAPACITY, signature=unroll),
      reverb.Table(
          'weights', sampler=reverb.selectors.Fifo(),
          remover=reverb.selectors.Fifo(), max_size=1,
          rate_limiter=reverb.rate_limiters.MinSize(1), signature=[
              tf.TensorSpec([], tf.int64),
              *(tf.TensorSpec(p.shape, p.dtype) for p in parameters)])])


def send(writer, table, columns):
  """Sends columns as one Reverb step, which costs a tenth of T+1 small ones."""
  writer.append(columns)
  writer.create_item(table, priority=1., trajectory=tf.nest.map_structure(
      lambda column: column[-1], writer.history))


# impala_tf/core/batches.py: also a share of replayed unrolls.
def make_batches(address):
  """Reads the queue: yields batches, NumPy `Step`s with leading [T+1, B]."""
  dataset = reverb.TrajectoryDataset.from_table_signature(
      address, 'queue', max_in_flight_samples_per_worker=1,
      rate_limiter_timeout_ms=PATIENCE_MS)
  dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).map(
      lambda sample: Step(*(
          tf.transpose(column, [1, 0, *range(2, column.shape.rank)])
          for column in sample.data)))
  options = tf.data.Options()
  options.autotune.enabled = False  # Unrolls that are read ahead grow old.
  return dataset.with_options(options).as_numpy_iterator()


# impala_tf/core/weights.py: also memory shared with actors on the same machine.
def publish(writer, version, parameters):
  """Replaces the parameters in the table by those of a number of updates."""
  send(writer, 'weights', [np.int64(version), *(p.numpy() for p in parameters)])
  writer.flush(timeout_ms=PATIENCE_MS)


def fetch(client, parameters):
  """Waits for parameters, assigns the newest and returns their version."""
  sample, = client.sample(
      'weights', emit_timesteps=False, unpack_as_table_signature=True)
  version, *values = sample.data
  for parameter, value in zip(parameters, values):
    parameter.assign(value)
  return int(version)


# impala_tf/core/actor.py: also environments in separate processes.
def run_actor(address, seed):
  """Plays E games of Catch and sends their unrolls, for ever."""
  tf.config.set_visible_devices([], 'GPU')  # It is the learner's.
  client = reverb.Client(address)
  writer = client.trajectory_writer(num_keep_alive_refs=1)
  environment = catch.CatchEnvironment(NUM_ENVS, seed)
  rng = np.random.default_rng(seed)
  parameters = make_parameters()
  infer = tf.function(network, autograph=False)

  def act(timestep, version):
    logits = infer(parameters, timestep.observation)[0].numpy()
    # The largest of logits with Gumbel noise is a sample of their softmax.
    action = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    return Step(timestep.reward, timestep.discount, timestep.observation.copy(),
                action.astype(np.int32), logits, np.full(NUM_ENVS, version))

  version = fetch(client, parameters)
  steps = [act(environment.reset(), version)]
  while True:
    for _ in range(UNROLL_LENGTH):
      steps.append(act(environment.step(steps[-1].action), version))
    unrolls = Step(*(np.stack(column, axis=1) for column in zip(*steps)))
    for i in range(NUM_ENVS):
      send(writer, 'queue', Step(*(column[i] for column in unrolls)))
    writer.flush(timeout_ms=PATIENCE_MS)  # Waits for room in the queue.
    version = fetch(client, parameters)
    steps = steps[-1:]


# impala_tf/core/loop.py: also metrics, checkpoints and other callbacks.
def learn(learner, batches, writer):
  """Updates and publishes until Catch is learned or all frames are used."""
  returns = collections.deque(maxlen=1000)
  for version, unroll in enumerate(batches):
    learner.update(unroll)
    publish(writer, version + 1, learner.parameters)
    # Catch pays for the last action alone, so that reward is the return.
    returns.extend(unroll.reward[1:][unroll.discount[1:] == 0])
    frames, mean_return = int(learner.num_frames), np.mean(returns)
    is_over = mean_return >= GOAL or frames >= TOTAL_FRAMES
    if is_over or version % LOG_INTERVAL_UPDATES == 0:
      lag = version - unroll.policy_version.mean()
      print(f'return {mean_return:.2f} · {frames:,} frames · lag {lag:.1f}')
    if is_over:
      return
  sys.exit('error: no unroll came for a minute; the actors failed, see above')


# impala_tf/core/experiment.py makes the parts, roles/learner_with_actors.py
# runs them, and impala_tf/runtime/supervisor.py keeps the processes alive.
def main():
  """Learns in this process, from actors that it starts as processes."""
  tf.random.set_seed(SEED)
  learner = Learner()
  server = make_server(learner.parameters)
  address = f'localhost:{server.port}'
  writer = reverb.Client(address).trajectory_writer(num_keep_alive_refs=1)
  publish(writer, 0, learner.parameters)
  spawn = multiprocessing.get_context('spawn')  # TensorFlow cannot be forked.
  # Ctrl-C is the learner's: actors are ended with the block.
  with spawn.Pool(NUM_ACTORS, signal.signal,
                  (signal.SIGINT, signal.SIG_IGN)) as actors:
    for i in range(NUM_ACTORS):
      actors.apply_async(run_actor, (address, SEED + i), error_callback=print)
    learn(learner, make_batches(address), writer)


if __name__ == '__main__':
  main()
