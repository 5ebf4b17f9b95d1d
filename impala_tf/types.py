"""The data that travels from actors to the learner, and its time convention.

Index t of everything belongs to one observation x_t. `agent_outputs[t]` was
computed from `env_outputs[t]`; `env_outputs[t].reward` and `.discount` are what
the action before x_t led to. The learner therefore pairs `agent_outputs[:-1]`
with `env_outputs[1:]`. An unroll of length T holds T+1 steps, and its last step
is the first of the next unroll.

Environments reset by themselves. The step that terminates an episode leads to a
row with the reward and discount of the old episode's last transition and the
observation of the new episode. A time limit is no such end: something would
have followed. So the final observation is a separate row, from whose value the
steps before it bootstrap. One more step, without an action, leads to the new
episode. Rows are

  an ordinary step:                MID,   discount 1, a reward.
  a life lost, the game goes on:   MID,   discount 0, a reward.
  the end of the game:             FIRST, discount 0, a reward.
  a step that met the time limit:  LAST,  discount 1, a reward.
  the reset after a LAST row:      FIRST, discount 1, reward 0.
  a failure of the simulator:      FIRST, discount 1, reward 0.

So nothing may be bootstrapped across a discount of 0. A transition into a FIRST
row with discount 1 must be masked out: the value of x_t says nothing of the
episode that was cut off. Its reset counts as frames of one agent step.

Shapes: T time, B batch, P logits, F features, E environments. NumPy arrays in
the actor, tensors in the learner; an unroll is [T+1, ...] in Reverb and
[T+1, B, ...] in the learner (time-major; only `sampling.py` transposes).
"""

from typing import Any, Mapping, NamedTuple

import dm_env
import tensorflow as tf


class EnvOutput(NamedTuple):
  """The environment's side of x_t, with the actor's bookkeeping.

  Readers may be given () for fields that they do not need.

  Attributes:
    step_type: uint8, `dm_env.StepType.FIRST` (0) if x_t begins an episode (a
      full game), LAST (2) if a time limit ends one, else MID (1).
    reward: float32, raw (not clipped), of the action before x_t, times
      `EnvironmentConfig.reward_scale`.
    discount: float32, 0 if nothing may be bootstrapped from x_t, else 1. The
      agent's discount factor is not in it.
    observation: one array; see `Unroll` for stacked frames.
    episode_return: float32, sum of raw rewards of the episode so far; on a
      FIRST row that of the whole episode that has just ended.
    episode_steps: int32, agent steps of the same episode as `episode_return`;
      the reset after a LAST row does not count. On a FIRST row, 0 means that
      the simulator failed and the episode before is lost.
    instruction: int32 [..., L], `word_ids.word_ids` of the level's instruction
      at x_t, zeros after the last word; () if instructions are not read.
    features: float32 [..., F], numbers observed beside an image, or ().
    action_mask: uint8 [..., P], 1 for each discrete action that is legal at
      x_t, 0 for others; () if all always are.
    episode_metrics: float32 [..., M], numbers that the level reported of the
      last episode that has ended, for logs only; () if M is 0.
  """
  step_type: Any = ()
  reward: Any = ()
  discount: Any = ()
  observation: Any = ()
  episode_return: Any = ()
  episode_steps: Any = ()
  instruction: Any = ()
  features: Any = ()
  action_mask: Any = ()
  episode_metrics: Any = ()


class AgentOutput(NamedTuple):
  """The behaviour policy's sampled action at x_t, and its logits.

  Attributes:
    action: int32; or float32 [..., D] for a continuous one, which the
      environment may have clipped since.
    policy_logits: float32 [..., P]; `distributions` gives them their meaning.
  """
  action: Any
  policy_logits: Any


class Origin(NamedTuple):
  """Origin of each unroll of a batch: the queue or the replay.

  Attributes:
    is_replayed: bool [B], whether it was sampled from the replay.
    is_foreign: bool [B], whether another agent that shares the replay played
      it, so that its `policy_version` counts that agent's updates; () if no
      replay is shared.
    weights: float32 [B], factor of each unroll's loss, which corrects for the
      probability of its sampling; () if sampling is uniform.
    keys: uint64 [B], key of each replayed unroll in its table, 0 for others; ()
      if priorities are not used.
  """
  is_replayed: Any
  is_foreign: Any = ()
  weights: Any = ()
  keys: Any = ()

  @property
  def is_of_several_agents(self) -> bool:
    """Whether the origin distinguishes this agent's unrolls from others'."""
    return not isinstance(self.is_foreign, tuple)

  def kinds(self) -> dict[str, Any]:
    """Returns a mask, bool [B], for each kind of unroll that has metrics."""
    kinds = {'replayed': self.is_replayed}
    if self.is_of_several_agents:
      kinds['own'] = self.is_replayed & ~self.is_foreign
      kinds['foreign'] = self.is_replayed & self.is_foreign
    return {**kinds, 'fresh': ~self.is_replayed}


class Unroll(NamedTuple):
  """A piece of T transitions, as an actor sends it.

  Attributes:
    env_outputs: `EnvOutput` with leading [T+1]. If the environment stacks S > 1
      frames, `observation` holds each frame once, [T+S, H, W]. First comes the
      stack of x_0, oldest frame first, then the newest frame of each later
      step. In the learner's step `frame_stacks.restack` makes [T+1, H, W, S].
    agent_outputs: `AgentOutput` with leading [T+1].
    core_state: the recurrent state before x_0 without a time dimension, as
      `Agent.initial_state` lays it out; () for feed-forward agents.
    policy_version: int64 [], learner updates behind the parameters that acted.
      They are fetched as the unroll begins. The action at x_0 was chosen
      before, at the end of the last unroll, unless it is chosen anew
      (`ActorConfig.synchronisation`). If environments are out of phase
      (`dynamic_batching_actor`), newer parameters may play the later steps.
    level_index: int32 [], number of the level among those of the run. It is for
      logs, and for PopArt's moments; policy and torso never see it: "the model
      does not know which task it is being trained or evaluated on" (section
      5.3).
    origin: `Origin`, which the learner adds to its batches if unrolls are
      replayed; else, and in actors, ().
  """
  env_outputs: EnvOutput
  agent_outputs: AgentOutput
  core_state: Any
  policy_version: Any
  level_index: Any
  origin: Any = ()


def unroll_spec(observation_spec: dm_env.specs.Array, frame_stack: int,
                action_spec: dm_env.specs.Array, num_logits: int,
                core_state: Any, unroll_length: int,
                side_channels: Mapping[str, Any] | None = None) -> Unroll:
  """Describes shapes and dtypes of one unroll without a batch dimension.

  Specs are of one environment; `side_channels` are `environment.SideChannels`
  by their names in `EnvOutput`. `frame_stack` is S of `Unroll`, `num_logits` P,
  and `core_state` that of `Agent.initial_state(1)`.
  """
  def of_steps(dtype, shape=(), num=unroll_length + 1):
    return tf.TensorSpec((num, *shape), dtype)

  shape, num_frames = observation_spec.shape, unroll_length + frame_stack
  if frame_stack > 1:
    shape = shape[:-1]
  return Unroll(
      env_outputs=EnvOutput(
          step_type=of_steps(tf.uint8),
          reward=of_steps(tf.float32),
          discount=of_steps(tf.float32),
          observation=of_steps(observation_spec.dtype, shape, num_frames),
          episode_return=of_steps(tf.float32),
          episode_steps=of_steps(tf.int32),
          **{name: of_steps(spec.dtype, spec.shape)
             for name, spec in (side_channels or {}).items()
             if spec != ()}),
      agent_outputs=AgentOutput(
          action=of_steps(action_spec.dtype, action_spec.shape),
          policy_logits=of_steps(tf.float32, (num_logits,))),
      core_state=tf.nest.map_structure(
          lambda t: tf.TensorSpec(t.shape[1:], t.dtype), core_state),
      policy_version=tf.TensorSpec((), tf.int64),
      level_index=tf.TensorSpec((), tf.int32))


class LossOutput(NamedTuple):
  """The loss that an algorithm computes of a batch of unrolls.

  Attributes:
    loss: float32 [], summed over batch and time; to be minimised.
    metrics: str to float32, for logs only: [B] if each unroll has a value, else
      [], a mean over the batch. Those under 'loss/' are [B] and add up.
    totals: sums, float32, for the algorithm's `after_step`.
  """
  loss: Any
  metrics: Any
  totals: Any = ()
