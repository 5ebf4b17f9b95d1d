"""Random actions of any environment, for benchmarks that need no agent."""

from typing import Any

from dm_env import specs
import numpy as np

from impala_tf.envs import environment as environment_lib


def draw(rng: np.random.Generator, spec: specs.BoundedArray, num_envs: int,
         action_mask: Any = ()) -> np.ndarray:
  """Draws an action for each of E environments.

  Legal actions are drawn alike. Continuous ones are normal numbers about 0,
  which environments clip and which need no bounds. `action_mask` is uint8
  [E, P], 0 for each illegal action, or an empty tuple.
  """
  shape = (num_envs, *spec.shape)
  if not np.issubdtype(spec.dtype, np.integer):
    return rng.standard_normal(shape, spec.dtype)
  num_choices = environment_lib.num_choices(spec)
  if isinstance(action_mask, tuple):
    return rng.integers(num_choices, size=shape, dtype=spec.dtype)
  # The largest of random numbers is at each legal action as often.
  numbers = np.split(
      np.where(action_mask, rng.random(action_mask.shape), -1),
      np.cumsum(np.atleast_1d(num_choices))[:-1], axis=1)
  return np.stack([np.argmax(choice, axis=1) for choice in numbers], axis=1
                  ).astype(spec.dtype).reshape(shape)
