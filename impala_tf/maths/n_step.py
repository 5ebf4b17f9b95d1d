"""Targets of n-step returns, one-step Q-learning and Sarsa, and exploration.

Source: Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement
Learning", arXiv:1602.01783v2, sections 4 and 8, algorithms 1, S2 and S3.

Index t of everything belongs to the transition from x_t to x_{t+1}. A masked
transition is the reset after a time limit, as in `vtrace`. The steps before it
bootstrap from the value of x_t. It has no target itself, and must be masked out
of the loss.

Shapes: T time, B batch, A actions; others raise ValueError. Targets are float32
[T, B], and no gradient flows through them. Functions of targets take

  rewards: float32 [T, B], r_t, the reward that followed a_t.
  discounts: float32 [T, B], gamma, or 0 if a_t ended the episode.
  mask: float32 or bool [T, B], 0 for the reset after a time limit, else 1.
"""

import numpy as np
import tensorflow as tf

# Values that epsilon is annealed to, and how likely each is (section 8).
FINAL_EPSILONS = (0.1, 0.01, 0.5)
PROBABILITIES = (0.4, 0.3, 0.3)


def n_step_targets(rewards: tf.Tensor, discounts: tf.Tensor,
                   bootstrap_value: tf.Tensor, mask: tf.Tensor,
                   values: tf.Tensor) -> tf.Tensor:
  """Computes R_t = r_t + gamma_t R_{t+1} from R_T, the bootstrap value.

  The last transition's target looks one step ahead, the first one's T steps
  (algorithms S2 and S3).

  `bootstrap_value` is V(x_T), or max_a Q(x_T, a) of the target network, float32
  [B]. `values` are those of x_t by the same function, float32 [T, B]. They are
  the targets of masked transitions.
  """
  rewards, discounts, bootstrap_value, values = (
      tf.convert_to_tensor(x, tf.float32)
      for x in (rewards, discounts, bootstrap_value, values))
  tf.debugging.assert_shapes([
      (rewards, ('T', 'B')), (discounts, ('T', 'B')), (mask, ('T', 'B')),
      (values, ('T', 'B')), (bootstrap_value, ('B',))])

  def step(later, transition):
    reward, discount, counts, value = transition
    # `where`, not a product: NaN times 0 would leak out of a cut transition.
    return tf.where(counts, reward + discount * later, value)

  return tf.stop_gradient(tf.scan(
      step, (rewards, discounts, tf.cast(mask, tf.bool), values),
      initializer=bootstrap_value, parallel_iterations=1, reverse=True))


def one_step_targets(rewards: tf.Tensor, discounts: tf.Tensor,
                     next_values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
  """Computes r_t + gamma_t V_{t+1} from values of x_{t+1}, float32 [T, B].

  They are max_a Q(x_{t+1}, a) of the target network in Q-learning (algorithm
  1): it both chooses and judges the action, unlike in Double Q-learning. They
  are Q(x_{t+1}, a_{t+1}) in Sarsa (section 4), of the actions that were then
  taken. Masked targets are 0.
  """
  rewards, discounts, next_values = (
      tf.convert_to_tensor(x, tf.float32)
      for x in (rewards, discounts, next_values))
  tf.debugging.assert_shapes([(rewards, ('T', 'B')), (discounts, ('T', 'B')),
                              (next_values, ('T', 'B')), (mask, ('T', 'B'))])
  return tf.stop_gradient(tf.where(
      tf.cast(mask, tf.bool), rewards + discounts * next_values, 0.))


def values_of_actions(action_values: tf.Tensor,
                      actions: tf.Tensor) -> tf.Tensor:
  """Picks Q(x_t, a_t), float32 [T, B], from values [T, B, A] of all actions."""
  action_values = tf.convert_to_tensor(action_values, tf.float32)
  actions = tf.convert_to_tensor(actions)
  tf.debugging.assert_shapes([
      (action_values, ('T', 'B', 'A')), (actions, ('T', 'B'))])
  return tf.gather(action_values, actions, batch_dims=2)


def draw_final_epsilon(rng: np.random.Generator) -> float:
  """Draws one of `FINAL_EPSILONS`, to which a worker's epsilon is annealed.

  "Periodically sampled" (section 4), and the paper does not say when; a worker
  may draw anew as each of its episodes begins.
  """
  return float(rng.choice(FINAL_EPSILONS, p=PROBABILITIES))


def annealed_epsilon(final_epsilon: float, num_frames: int,
                     anneal_frames: int) -> float:
  """Anneals a random action's probability linearly from 1 to `final_epsilon`.

  Environment frames, so far and until it is final, are of all workers together.
  """
  return 1. + min(num_frames / anneal_frames, 1.) * (final_epsilon - 1.)
