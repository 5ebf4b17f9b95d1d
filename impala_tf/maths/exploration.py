"""Exploration of the asynchronous value methods: each worker's epsilon.

Source: Mnih et al. 2016 (arXiv:1602.01783v2), sections 4 and 8. Workers explore
differently, so that their updates are less correlated. Standard library and
NumPy only.
"""

import numpy as np

# Values that epsilon is annealed to, and how likely each is (section 8).
FINAL_EPSILONS = (0.1, 0.01, 0.5)
PROBABILITIES = (0.4, 0.3, 0.3)


def draw_final_epsilon(rng: np.random.Generator) -> float:
  """Draws one of `FINAL_EPSILONS`, to which a worker's epsilon is annealed.

  "Periodically sampled" (section 4), and the paper does not say when; a worker
  may draw anew as each of its episodes begins.
  """
  return float(rng.choice(FINAL_EPSILONS, p=PROBABILITIES))


def annealed_epsilon(final_epsilon: float, num_frames: int,
                     anneal_frames: int) -> float:
  """Returns the probability of a random action, from 1 linearly to the final.

  Environment frames so far, and those after which it is final, are of all
  workers together.
  """
  share = min(num_frames / anneal_frames, 1.)
  return 1. + share * (final_epsilon - 1.)
