"""Agents as SavedModels, which TensorFlow runs without this package.

The object that `tf.saved_model.load` returns has two functions:

    initial_state(batch_size)  # The memory before the first step.
    act(inputs, core_state, seed, deterministic)  # Action and memory after it.
"""

import tensorflow as tf

from impala_tf import types
from impala_tf.agents import saved


def _input_specs(loaded: saved.LoadedAgent) -> dict[str, tf.TensorSpec]:
  """Returns the specs of all that an agent reads of x_t, leading [B]."""
  agent, spec = loaded.agent, loaded.observation_spec
  specs = {'observation': tf.TensorSpec((None, *spec.shape), spec.dtype)}
  if loaded.config.instruction_length:
    specs['instruction'] = tf.TensorSpec(
        (None, loaded.config.instruction_length), tf.int32)
  if agent.num_features:
    specs['features'] = tf.TensorSpec((None, agent.num_features), tf.float32)
  if agent.has_action_mask:
    specs['action_mask'] = tf.TensorSpec(
        (None, agent.distribution.num_logits), tf.uint8)
  if agent.reads_rewards:
    specs['step_type'] = tf.TensorSpec((None,), tf.uint8)
    specs['reward'] = tf.TensorSpec((None,), tf.float32)
  return specs


def write(loaded: saved.LoadedAgent, directory: str) -> None:
  """Writes an agent as a SavedModel.

  `act` reads a dict of those fields of `types.EnvOutput` that this agent reads,
  with leading [B]: the observation as the agent gets it, `instruction`,
  `features`, `action_mask`, and with an LSTM `step_type` and `reward`. Steps
  need different seeds. Scaled continuous actions are from -1 to 1.
  """
  agent = loaded.agent

  def act(inputs, core_state, seed, deterministic):
    env_output = types.EnvOutput(**inputs)
    output, core_state = tf.cond(
        deterministic,
        lambda: agent.step(env_output, core_state, seed, True),
        lambda: agent.step(env_output, core_state, seed, False))
    return {'action': output.action, 'policy_logits': output.policy_logits,
            'core_state': core_state}

  state_specs = tf.nest.map_structure(
      lambda t: tf.TensorSpec((None, *t.shape[1:]), t.dtype),
      agent.initial_state(1))
  module = tf.Module()
  module.agent = agent
  # A `QAgent` hides its own from checkpoints; every variable is needed here.
  module.epsilon = getattr(agent, 'epsilon', None)
  module.initial_state = tf.function(
      agent.initial_state, autograph=False,
      input_signature=[tf.TensorSpec((), tf.int32)])
  module.act = tf.function(act, autograph=False, input_signature=[
      _input_specs(loaded), state_specs, tf.TensorSpec((2,), tf.int32),
      tf.TensorSpec((), tf.bool)])
  tf.saved_model.save(module, directory)
