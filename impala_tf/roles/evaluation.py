"""Plays full episodes with fixed parameters."""

from typing import Callable, List, NamedTuple

import dm_env
import numpy as np

from impala_tf.agents import acting as policy_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.envs import environment as environment_lib


class Evaluation(NamedTuple):
  """Returns and lengths of the games of an evaluation."""
  returns: List[float]  # Sum of raw rewards of each episode.
  frames: List[int]  # Environment frames of each episode.

  def summary(self) -> dict:
    """Computes mean, median, standard error of the mean and extremes."""
    returns = np.asarray(self.returns)
    error = None  # One episode has no spread.
    if len(returns) > 1:
      error = float(np.std(returns, ddof=1) / np.sqrt(len(returns)))
    return {
        'episodes': len(returns),
        'mean': float(np.mean(returns)),
        'median': float(np.median(returns)),
        'standard_error': error,
        'min': float(np.min(returns)),
        'max': float(np.max(returns)),
        'mean_episode_frames': float(np.mean(self.frames)),
    }


def evaluate(agent: agent_lib.Agent,
             environment: environment_lib.BatchedEnvironment,
             num_episodes: int, seed: int,
             on_step: Callable[[int], None] = lambda num_ended: None,
            deterministic: bool = False) -> Evaluation:
  """Plays by the paper's protocol: sampled actions, memory carried along.

  Each environment plays its share of the episodes: taking the first that end
  would favour short ones.

  Args:
    num_episodes: number of episodes, at least 1.
    on_step: called at the beginning and after each step with the number of
      episodes that the first environment has ended.
    deterministic: take the most probable actions, which the protocol does not.
  """
  num_envs = environment.num_envs
  shares = np.full(num_envs, num_episodes // num_envs)
  shares[:num_episodes % num_envs] += 1
  ended = np.zeros(num_envs, int)
  policy = policy_lib.Policy(agent, num_envs, seed, deterministic)
  counter = policy_lib.EpisodeCounter(num_envs)
  result = Evaluation([], [])
  env_output = counter.env_output(
      environment.reset(), environment.side_channels)
  on_step(0)
  while np.any(ended < shares):
    actions = policy.act(env_output).action
    env_output = counter.env_output(
        environment.step(actions), environment.side_channels)
    # A game that is lost with its simulator, with 0 steps, is played again.
    has_ended = (env_output.step_type == int(dm_env.StepType.FIRST)) & (
        env_output.episode_steps > 0)
    for e in np.flatnonzero(has_ended & (ended < shares)):
      result.returns.append(float(env_output.episode_return[e]))
      result.frames.append(
          int(env_output.episode_steps[e]) * environment.frames_per_step)
    ended += has_ended
    on_step(int(ended[0]))
  return result
