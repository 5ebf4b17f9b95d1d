"""The agent: from observations to a policy, a baseline and memory."""

from typing import Dict, NamedTuple, Optional, Sequence, Tuple, Union

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import networks
from impala_tf.agents import popart_head
from impala_tf.maths import distributions
from impala_tf.maths import losses


class CoreState(NamedTuple):
  """The memory of a recurrent agent before it sees x_t.

  Attributes:
    lstm: see `networks.LSTMState`, [B, size].
    last_action: [B, ...], the action that led to x_t.
  """
  lstm: networks.LSTMState
  last_action: tf.Tensor


class NetworkOutput(NamedTuple):
  """The outputs of target policy and baseline at x_t.

  Attributes:
    policy_logits: float32 [T+1, B, P].
    baseline: float32 [T+1, B], V(x_t); with PopArt [T+1, B, L], of every
      task and normalised.
  """
  policy_logits: tf.Tensor
  baseline: tf.Tensor


class Agent(tf.Module):
  """The agent of the paper's figure 3, with or without the LSTM.

  Feed-forward agents (appendix G) see the observation alone; recurrent ones
  also the last action and the last reward, clipped to [-1, 1]. All memory,
  those two included, ends where an episode starts. Either kind may
  read instructions, whose encoding joins the torso's features.
  """

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, num_tasks: Optional[int] = None):
    """Makes the layers, yet without variables.

    Args:
      distribution: the policy's, see `distributions.of_actions`.
      config: kind and sizes of the network.
      precision: the torso's, 'float32' or 'mixed_bfloat16'.
        Variables, the LSTM and the heads are float32 with either.
      compiled: whether XLA will compile it.
      num_tasks: L, to have values normalised for each of so many tasks by
        `popart`, a `popart_head.PopArtHead`; None: values as they are.
    """
    super().__init__(name='agent')
    self._distribution = distribution
    self._torso_name = config.torso
    self._torso = networks.TORSOS[config.torso](config.hidden_size, precision)
    self._instruction_length = config.instruction_length
    self._instruction_encoder = None
    if config.instruction_length:
      self._instruction_encoder = networks.InstructionEncoder(compiled)
    self._core = None
    if config.use_lstm:
      self._core = networks.LSTMCore(config.lstm_size)
    elif config.instruction_length:
      # Linear heads could add up what is read and what is seen, but not act on
      # what is seen because of what is read. Else the LSTM sees to it.
      self._join = networks.linear(config.hidden_size, activation='relu')
    self._policy_head = networks.linear(distribution.num_logits)
    self._baseline_head = networks.linear(num_tasks or 1)
    self.popart = None
    if num_tasks:
      self.popart = popart_head.PopArtHead(self._baseline_head)

  @property
  def distribution(self) -> distributions.Distribution:
    """The policy's distribution, which tells what its logits mean."""
    return self._distribution

  @property
  def parts(self) -> Dict[str, Sequence[tf.Variable]]:
    """Variables by part of the network, for `transfer`.

    Those of 'policy head', 'baseline head' and 'LSTM inputs' depend on what is
    played; all others on `AgentConfig` and observations alone.
    """
    modules = {'torso': self._torso, 'LSTM': self._core,
               'policy head': self._policy_head,
               'baseline head': self.popart or self._baseline_head,
               'instruction encoder': self._instruction_encoder}
    if self._instruction_encoder is not None and self._core is None:
      modules['joining layer'] = self._join
    parts = {name: list(module.variables) for name, module in modules.items()
             if module is not None}
    if self._core is not None:
      kernel = self._core.input_kernel
      parts['LSTM'] = [v for v in parts['LSTM'] if v is not kernel]
      parts['LSTM inputs'] = [kernel]
    return parts

  @property
  def reads_rewards(self) -> bool:
    """Whether the last reward is an input, as it is of the LSTM."""
    return self._core is not None

  @property
  def num_tasks(self) -> Optional[int]:
    """Tasks whose values are normalised apart; None where none are."""
    return self.popart.num_tasks if self.popart else None

  def build(self, observation_spec: dm_env.specs.Array) -> None:
    """Creates the variables, so that they can be restored before any step.

    Args:
      observation_spec: observations of one environment.

    Raises:
      ConfigError: where the torso cannot take such observations.
    """
    if self._torso_name != 'mlp' and len(observation_spec.shape) != 3:
      raise config_lib.ConfigError(
          f"AgentConfig.torso = '{self._torso_name}' needs images [H, W, C], "
          f'but observations are {list(observation_spec.shape)}; use '
          "AgentConfig.torso = 'mlp'")
    observation = tf.zeros((1, 1) + observation_spec.shape,
                           observation_spec.dtype)
    instruction = tf.zeros([1, 1, self._instruction_length], tf.int32)
    zeros = tf.zeros([1, 1])
    self._forward(observation, zeros, self._no_actions(1, 1),
                  tf.cast(zeros, tf.bool), instruction, self.initial_state(1))

  def initial_state(self, batch_size) -> Union[CoreState, Tuple[()]]:
    """Makes the memory before a first step; an empty tuple without an LSTM."""
    if self._core is None:
      return ()
    return CoreState(self._core.initial_state(batch_size),
                     self._no_actions(batch_size))

  def _no_actions(self, *leading) -> tf.Tensor:
    """Makes zeros [*leading, ...] for steps that have no last action."""
    return tf.zeros([*leading, *self._distribution.action_shape],
                    self._distribution.action_dtype)

  def step(self, env_output: types.EnvOutput, core_state, seed: tf.Tensor,
           deterministic: bool = False
           ) -> Tuple[types.AgentOutput, CoreState]:
    """Acts once.

    Args:
      env_output: x_t, leading [B].
      core_state: before x_t.
      seed: int32 [2], seed of the stateless sampling.
      deterministic: take the most probable action instead of sampling one.

    Returns:
      The action with its logits, leading [B], and the next core state.
    """
    last_action = core_state.last_action if core_state else None
    outputs, lstm = self._forward(
        *_with_time(env_output.observation, env_output.reward, last_action,
                    _is_first(env_output), self._instruction(env_output)),
        core_state)
    logits = outputs.policy_logits[0]
    if deterministic:
      action = self._distribution.mode(logits)
    else:
      action = self._distribution.sample(logits, seed)
    core_state = CoreState(lstm, action) if core_state else ()
    return types.AgentOutput(action, logits), core_state

  def unroll(self, env_outputs: types.EnvOutput, actions: tf.Tensor,
             core_state) -> NetworkOutput:
    """Evaluates the current parameters on a batch of unrolls.

    Args:
      env_outputs: x_0 to x_T, leading [T+1, B].
      actions: [T+1, B, ...] that were taken at these.
      core_state: before x_0, as the actor had it.

    Returns:
      `NetworkOutput`, leading [T+1, B].
    """
    last_actions = None
    if core_state:
      last_actions = tf.concat(
          [core_state.last_action[tf.newaxis], actions[:-1]], axis=0)
    outputs, _ = self._forward(env_outputs.observation, env_outputs.reward,
                               last_actions, _is_first(env_outputs),
                               self._instruction(env_outputs), core_state)
    return outputs

  def _instruction(self, env_outputs: types.EnvOutput):
    """Returns the word ids, or None where the agent reads none."""
    if self._instruction_encoder is None:
      return None
    if isinstance(env_outputs.instruction, tuple):
      raise ValueError('the agent reads instructions, but was given none')
    return env_outputs.instruction

  def _forward(self, observations, rewards, last_actions, is_first,
               instructions, core_state):
    """Runs the network on leading [T, B].

    Returns:
      `NetworkOutput` and the LSTM's state.
    """
    # Time is folded into the batch for all but the LSTM (section 3.1).
    folded = tf.reshape(observations,
                        tf.concat([[-1], tf.shape(observations)[2:]], axis=0))
    folded = tf.ensure_shape(folded, [None] + observations.shape[2:])
    features = self._torso(folded)
    if self._instruction_encoder is not None:
      read = self._instruction_encoder(
          tf.reshape(instructions, [-1, instructions.shape[-1]]))
      features = tf.concat([features, read], axis=-1)
      if self._core is None:
        features = self._join(features)
    leading = tf.shape(is_first)
    lstm_state = None
    if self._core is not None:
      features = tf.reshape(
          features, tf.concat([leading, [features.shape[-1]]], axis=0))
      features = tf.ensure_shape(
          features, is_first.shape.concatenate(features.shape[-1]))
      keep = 1. - tf.cast(is_first, tf.float32)
      rewards = tf.math.multiply_no_nan(
          losses.clip_rewards(rewards, 'abs_one'), keep)
      last_actions = tf.math.multiply_no_nan(
          self._distribution.encode(last_actions), keep[..., tf.newaxis])
      features = tf.concat(
          [features, rewards[..., tf.newaxis], last_actions], axis=-1)
      features, lstm_state = self._core(features, is_first, core_state.lstm)
    logits = self._policy_head(features)
    baseline = self._baseline_head(features)
    baseline_shape = leading
    if self.popart:
      baseline_shape = tf.concat([leading, [self.popart.num_tasks]], axis=0)
    return NetworkOutput(
        tf.reshape(logits, tf.concat([leading, [logits.shape[-1]]], axis=0)),
        tf.reshape(baseline, baseline_shape)), lstm_state


def _is_first(env_outputs: types.EnvOutput) -> tf.Tensor:
  return tf.equal(env_outputs.step_type, int(dm_env.StepType.FIRST))


def _with_time(*tensors):
  """Adds a time dimension of 1 to each tensor that is not None."""
  return [None if t is None else tf.expand_dims(t, 0) for t in tensors]
