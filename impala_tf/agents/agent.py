"""The agent: from observations to a policy, a baseline and memory."""

from typing import Any, Callable, NamedTuple, Sequence

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import layers
from impala_tf.agents import networks
from impala_tf.agents import torsos
from impala_tf.maths import distributions
from impala_tf.maths import frame_stacks
from impala_tf.maths import losses
from impala_tf.maths import running_moments
from impala_tf.runtime import interfaces


class CoreState(NamedTuple):
  """Memory of a recurrent agent before it sees x_t."""
  lstm: Any  # `networks.LSTMState` [B, size]; a `SeparateAgent` has two.
  last_action: tf.Tensor  # [B, ...], the action that led to x_t.


class NetworkOutput(NamedTuple):
  """The outputs of target policy and baseline at x_t.

  The baseline is V(x_t); with PopArt it is [T+1, B, L], of every task and
  normalised.
  """
  policy_logits: tf.Tensor  # float32 [T+1, B, P].
  baseline: tf.Tensor  # float32 [T+1, B].


class Agent(tf.Module):
  """The agent of the paper's figure 3, with or without the LSTM.

  Feed-forward agents (appendix G) see the observation alone. Recurrent ones
  also see the last action and the last reward, clipped to [-1, 1]; all their
  memory, these two included, ends where an episode starts. Both may read
  instructions, or numbers beside an image, whose encoding joins the torso's
  features.

  Attributes:
    kind: name of the class in `saved`, which uses it to make the agent again.
    distribution: the policy's, which gives its logits their meaning.
    popart: head that normalises values by task, or None.
    normaliser: normaliser of observed vectors, or None.
    num_features: F, numbers observed beside an image.
    has_action_mask: whether observations carry an action mask.
  """

  kind = 'actor_critic'

  def __init__(self, distribution: distributions.Distribution,
               config: config_lib.AgentConfig, precision: str = 'float32',
               compiled: bool = False, num_tasks: int | None = None):
    """Makes the layers; `build` makes their variables.

    `precision` is the torso's (see `layers`); all else is float32. `compiled`
    says whether XLA will compile the agent. `num_tasks` is L, the number of
    tasks whose values `popart` normalises, each apart; None for none.
    """
    super().__init__(name='agent')
    self.distribution = distribution
    self._config = config
    self._precision = precision
    self._torso_name = ''
    self._torso: Any = None
    self.num_features = 0
    self.has_action_mask = False
    self._feature_encoder: layers.Linear | None = None
    self.normaliser: layers.ObservationNormaliser | None = None
    self._instruction_encoder = (networks.InstructionEncoder(compiled)
                                 if config.instruction_length else None)
    self._core = (
        networks.LSTMCore(config.lstm_size) if config.use_lstm else None)
    self._join: layers.Linear | None = None
    self._policy_head = layers.Linear(distribution.num_logits)
    self._baseline_head = layers.Linear(num_tasks or 1)
    self.popart = (
        layers.PopArtHead(self._baseline_head) if num_tasks else None)

  @property
  def parts(self) -> dict[str, Sequence[tf.Variable]]:
    """Variables by part of the network, for `transfer`.

    'policy head', 'baseline head' and 'LSTM inputs' depend on the actions and
    tasks; all others on `AgentConfig` and observations alone.
    """
    modules = {'torso': self._torso, 'LSTM': self._core,
               'policy head': self._policy_head,
               'baseline head': self.popart or self._baseline_head,
               'instruction encoder': self._instruction_encoder,
               'feature encoder': self._feature_encoder,
               'joining layer': self._join,
               'running moments': self.normaliser}
    parts: dict[str, Sequence[tf.Variable]] = {
        name: list(module.variables) for name, module in modules.items()
        if module is not None}
    if self._core is not None:
      kernel = self._core.input_kernel
      parts['LSTM'] = [v for v in parts['LSTM'] if v is not kernel]
      parts['LSTM inputs'] = [kernel]
    return parts

  @property
  def reads_rewards(self) -> bool:
    """Whether the last reward is an input: True with an LSTM, else False."""
    return self._core is not None

  @property
  def num_tasks(self) -> int | None:
    """Number of tasks whose values PopArt normalises; None without PopArt."""
    return self.popart.num_tasks if self.popart else None

  @property
  def published_variables(self) -> tuple[tf.Variable, ...]:
    """Variables that acting needs: the trainable ones and running moments."""
    if self.normaliser is None:
      return self.trainable_variables
    return (*self.trainable_variables, *self.normaliser.published_variables)

  def build(self, observation_spec: dm_env.specs.Array,
            num_features: int = 0, has_action_mask: bool = False) -> None:
    """Creates the variables, so that they can be restored before any step.

    Raises ConfigError if the torso cannot take such observations or hides a
    variable, or observations are images and would have to be normalised.
    """
    self.has_action_mask = has_action_mask
    self._make_encoders(observation_spec, num_features)
    zeros = tf.zeros([1, 1])
    with tf.GradientTape() as tape:
      self._forward(
          types.EnvOutput(
              step_type=tf.cast(zeros, tf.uint8), reward=zeros, discount=zeros,
              observation=tf.zeros((1, 1) + observation_spec.shape,
                                   observation_spec.dtype),
              instruction=tf.zeros([1, 1, self._config.instruction_length],
                                   tf.int32),
              features=tf.zeros([1, 1, num_features]),
              action_mask=tf.ones([1, 1, self.distribution.num_logits])),
          self.no_actions(1, 1), self.initial_state(1))
    local_results = tf.distribute.get_strategy().experimental_local_results
    # By handle, since Keras wraps variables of mixed precision.
    found = {id(local.handle) for variable in self.trainable_variables
             for local in local_results(variable)}
    for variable in tape.watched_variables():
      if id(variable.handle) not in found:
        raise config_lib.ConfigError(
            f'the torso {self._torso_name!r} uses a variable {variable.name!r} '
            'that would not be trained, since it is in no tf.Module of the '
            "torso's; make each class that holds layers a tf.Module, or the "
            'variable trainable=False')

  def _make_encoders(self, observation_spec: dm_env.specs.Array,
                     num_features: int) -> None:
    config = self._config
    self._torso_name = torsos.fitting(config.torso, observation_spec.shape)
    self._torso = networks.make_torso(self._torso_name, config.hidden_size,
                                      self._precision, config.torso_gain)
    self.num_features = num_features
    if num_features:
      self._feature_encoder = layers.Linear(config.hidden_size, tf.nn.relu)
    if self._core is None and (num_features or config.instruction_length):
      # Linear heads would only add up text and image; a policy must read one
      # in the light of the other. An LSTM does so itself.
      self._join = layers.Linear(config.hidden_size, tf.nn.relu)
    if not config.normalise_observations:
      return
    if len(observation_spec.shape) == 3 and not num_features:
      raise config_lib.ConfigError(
          'AgentConfig.normalise_observations = True is for vectors, but '
          f'observations are images {list(observation_spec.shape)} alone; set '
          'it to False')
    self.normaliser = layers.ObservationNormaliser(
        [num_features] if num_features else observation_spec.shape)

  def observation_totals(self, env_outputs: types.EnvOutput
                         ) -> running_moments.Totals:
    """Sums up observations for `normaliser`, which must not be None.

    Leaves out x_0 of [T+1, B], which was the last of an unroll before.
    """
    assert self.normaliser is not None
    return self.normaliser.totals(
        (env_outputs.features if self.num_features
         else env_outputs.observation)[1:])

  def initial_state(self, batch_size) -> CoreState | tuple[()]:
    """Makes the memory before a first step; an empty tuple without an LSTM."""
    if self._core is None:
      return ()
    return CoreState(self._core.initial_state(batch_size),
                     self.no_actions(batch_size))

  def no_actions(self, *leading) -> tf.Tensor:
    """Makes zeros [*leading, ...] for steps that have no last action."""
    return tf.zeros([*leading, *self.distribution.action_shape],
                    self.distribution.action_dtype)

  def step(self, env_output: types.EnvOutput, core_state, seed: tf.Tensor,
           deterministic: bool = False) -> tuple[types.AgentOutput, CoreState]:
    """Chooses actions at x_t, leading [B]; returns also the next core state.

    Fields that the agent does not read may be empty tuples; only memory reads
    step types and rewards. `seed`, int32 [2], is that of stateless sampling;
    `deterministic` takes the most probable action instead.
    """
    env_outputs, last_actions = tf.nest.map_structure(
        lambda t: tf.expand_dims(t, 0),
        (env_output, core_state.last_action if core_state else ()))
    outputs, lstm = self._forward(env_outputs, last_actions, core_state)
    logits = tf.squeeze(outputs.policy_logits, axis=0)
    action = (self.distribution.mode(logits) if deterministic
              else self._choose(logits, seed))
    core_state = CoreState(lstm, action) if core_state else ()
    return types.AgentOutput(action, logits), core_state

  def _choose(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return self.distribution.sample(logits, seed)

  def unroll(self, env_outputs: types.EnvOutput, actions: tf.Tensor,
             core_state) -> NetworkOutput:
    """Runs the network over a batch of unrolls, leading [T+1, B].

    `core_state` is that before x_0, as the actor had it.
    """
    last_actions = core_state and tf.concat(
        [core_state.last_action[tf.newaxis], actions[:-1]], axis=0)
    return self._forward(env_outputs, last_actions, core_state)[0]

  def memory_after(self, env_outputs: types.EnvOutput, actions: tf.Tensor,
                   core_state: CoreState) -> CoreState:
    """Computes the memory before x_T, the first step of the next unrolls.

    Arguments are those of `unroll`, but frames are not re-stacked yet.
    """
    last_actions = tf.concat(
        [core_state.last_action[tf.newaxis], actions[:-2]], axis=0)
    _, lstm = self._forward(
        tf.nest.map_structure(lambda t: t[:-1], restacked(env_outputs)),
        last_actions, core_state)
    return CoreState(lstm, actions[-2])

  def _forward(self, env_outputs: types.EnvOutput, last_actions, core_state):
    """Runs the network on [T, B, ...]; also returns the LSTM's state."""
    features, lstm_state = self._features(
        env_outputs, last_actions, core_state.lstm if self._core else None)
    return self._heads(env_outputs, features, features), lstm_state

  def _features(self, env_outputs: types.EnvOutput, last_actions, lstm_state):
    """Computes inputs of heads, [T*B, F] or [T, B, F], and the LSTM's state."""
    features = self._encode(env_outputs)
    if self._core is None:
      return features, None
    is_first = tf.equal(env_outputs.step_type, int(dm_env.StepType.FIRST))
    features = tf.reshape(features, tf.concat(
        [_leading(env_outputs), [features.shape[-1]]], axis=0))
    features = tf.ensure_shape(
        features, is_first.shape.concatenate(features.shape[-1]))
    keep = 1. - tf.cast(is_first, tf.float32)
    rewards = tf.math.multiply_no_nan(  # NaN would spread to all that follows.
        losses.clip_rewards(env_outputs.reward, 'abs_one'),
        keep * tf.cast(tf.math.is_finite(env_outputs.reward), tf.float32))
    last_actions = tf.math.multiply_no_nan(
        self.distribution.encode(last_actions), keep[..., tf.newaxis])
    features = tf.concat(
        [features, rewards[..., tf.newaxis], last_actions], axis=-1)
    return self._core(features, is_first, lstm_state)

  def _heads(self, env_outputs: types.EnvOutput, policy_features: tf.Tensor,
             value_features: tf.Tensor) -> NetworkOutput:
    leading = _leading(env_outputs)
    logits = self._policy_head(policy_features)
    logits = tf.reshape(
        logits, tf.concat([leading, [logits.shape[-1]]], axis=0))
    if self.has_action_mask:
      logits = distributions.mask_logits(
          logits, _given('action masks', env_outputs.action_mask))
    baseline = self._baseline_head(value_features)
    baseline_shape = (tf.concat([leading, [self.popart.num_tasks]], axis=0)
                      if self.popart else leading)
    return NetworkOutput(logits, tf.reshape(baseline, baseline_shape))

  def _encode(self, env_outputs: types.EnvOutput) -> tf.Tensor:
    """Encodes observations, with time folded into the batch: [T*B, ...].

    Every layer but the LSTM runs on this shape (section 3.1).
    """
    observations = env_outputs.observation
    if self.normaliser and not self.num_features:
      observations = self.normaliser(observations)
    encoded = networks.checked_features(
        self._torso_name, self._torso(_fold(observations)))
    others = []
    if self._instruction_encoder is not None:
      others.append(self._instruction_encoder(
          _fold(_given('instructions', env_outputs.instruction))))
    if self._feature_encoder is not None:
      features = _given('features', env_outputs.features)
      if self.normaliser:
        features = self.normaliser(features)
      others.append(self._feature_encoder(_fold(features)))
    if others:
      encoded = tf.concat([encoded, *others], axis=-1)
    return encoded if self._join is None else self._join(encoded)


def restacked(env_outputs: types.EnvOutput) -> types.EnvOutput:
  """Rebuilds the frame stacks of x_0 to x_T, if each frame was sent once."""
  observation, step_type = env_outputs.observation, env_outputs.step_type
  if observation.shape[0] <= step_type.shape[0]:  # A frame for each step.
    return env_outputs
  return env_outputs._replace(
      observation=frame_stacks.restack(observation, step_type))


def memory_recomputer(agent: Agent, fetcher: interfaces.Fetcher
                      ) -> Callable[[types.Unroll], CoreState]:
  """Makes a function that computes the memory after replayed unrolls.

  Present parameters misread an LSTM state that older ones, or another agent,
  computed (LASER: Schmitt et al. 2020, supplement, section 1.2). So `agent`,
  whose variables `fetcher` updates, recomputes it. ConnectionError: the fetcher
  has lost the learner.
  """
  memory_after = tf.function(agent.memory_after, autograph=False)

  def recompute(unroll):
    fetcher.fetch()
    return memory_after(
        unroll.env_outputs, unroll.agent_outputs.action, unroll.core_state)

  return recompute


def _given(name: str, tensor: Any) -> tf.Tensor:
  """Returns a side channel; raises ValueError if it is missing."""
  if isinstance(tensor, tuple):
    raise ValueError(f'the agent reads {name}, but was given none')
  return tensor


def _fold(tensor: tf.Tensor) -> tf.Tensor:
  """Folds time into the batch: [T, B, ...] to [T*B, ...]."""
  folded = tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], axis=0))
  return tf.ensure_shape(folded, [None, *tensor.shape[2:]])


def _leading(env_outputs: types.EnvOutput) -> tf.Tensor:
  return tf.shape(env_outputs.observation)[:2]
