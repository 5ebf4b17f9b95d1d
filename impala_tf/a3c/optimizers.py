"""Optimisers of vectors that several processes change at once.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), sections 4 and 7, equation S2.
They work elementwise, so a caller may process a vector block by block. NumPy
only: TensorFlow's own operations lock the vectors they change.
"""

import functools
from typing import Callable

import numpy as np

# Takes a step in place: parameters, the optimiser's memory of them, their
# gradient, float32 [N] each, and the learning rate.
UpdateFn = Callable[[np.ndarray, np.ndarray, np.ndarray, float], None]


def rmsprop(parameters: np.ndarray, mean_squares: np.ndarray,
            gradient: np.ndarray, learning_rate: float, decay: float,
            epsilon: float) -> None:
  """Takes a step of RMSProp, not centred, in place.

    g <- decay g + (1 - decay) gradient^2
    parameters <- parameters - learning_rate gradient / sqrt(g + epsilon)

  Vectors are float32 [N], g (`mean_squares`) is 0 or more, the gradient finite.
  """
  # Read once: another process may write meanwhile, and a value that is half old
  # and half new could be negative, which has no root.
  mean_square = decay * mean_squares + (1 - decay) * np.square(gradient)
  mean_squares[:] = mean_square
  mean_square += epsilon
  np.sqrt(mean_square, out=mean_square)
  np.divide(gradient, mean_square, out=mean_square)
  mean_square *= learning_rate
  parameters -= mean_square


def momentum_sgd(parameters: np.ndarray, momenta: np.ndarray,
                 gradient: np.ndarray, learning_rate: float,
                 decay: float) -> None:
  """Takes a step of stochastic gradient descent with momentum, in place.

  m <- decay m + (1 - decay) gradient
  parameters <- parameters - learning_rate m
  """
  momentum = decay * momenta + (1 - decay) * gradient
  momenta[:] = momentum
  momentum *= learning_rate
  parameters -= momentum


def make(name: str, decay: float, epsilon: float) -> UpdateFn:
  """Makes the optimiser 'shared_rmsprop', 'rmsprop' or 'momentum_sgd'."""
  if name == 'momentum_sgd':
    return functools.partial(momentum_sgd, decay=decay)
  return functools.partial(rmsprop, decay=decay, epsilon=epsilon)


def num_slots(name: str, num_workers: int) -> int:
  """Counts the vectors of mean squares, or momenta, of all workers together."""
  return 1 if name == 'shared_rmsprop' else num_workers
