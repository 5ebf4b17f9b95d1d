"""A SavedModel acts as the agent it was written from."""

import subprocess
import sys

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import saved
from impala_tf.agents import saved_model
from impala_tf.maths import distributions

_B = 3
_SEED = np.array([7, 1], np.int32)
_IMAGE = dm_env.specs.Array((20, 20, 3), np.uint8)
_VECTOR = dm_env.specs.Array((4,), np.float32)


def _agent(spec, distribution, num_features=0, has_mask=False,
           kind=agent_lib.Agent, **options):
  config = config_lib.AgentConfig(
      torso='shallow' if spec is _IMAGE else 'mlp', hidden_size=8, **options)
  agent = kind(distribution, config)
  agent.build(spec, num_features, has_mask)
  return saved.LoadedAgent(agent, 5, 'ckpt-3', spec, config)


def _inputs(loaded, step):
  """Makes what the agent reads of x_t, random but for episodes' beginnings."""
  rng = np.random.default_rng(step)
  agent = loaded.agent
  inputs = {'observation': (255 * rng.random(
      (_B, *loaded.observation_spec.shape))).astype(
          loaded.observation_spec.dtype)}
  if loaded.config.instruction_length:
    inputs['instruction'] = rng.integers(
        0, 9, (_B, loaded.config.instruction_length)).astype(np.int32)
  if agent.num_features:
    inputs['features'] = rng.random((_B, agent.num_features)).astype(np.float32)
  if agent.has_action_mask:
    mask = rng.random((_B, agent.distribution.num_logits)) < 0.5
    mask[:, 0] = True
    inputs['action_mask'] = mask.astype(np.uint8)
  if agent.reads_rewards:
    inputs['step_type'] = np.uint8([0, 1, step % 2])
    inputs['reward'] = rng.normal(size=_B).astype(np.float32)
  return inputs


@pytest.mark.parametrize('spec, distribution, others', [
    (_IMAGE, distributions.Categorical(5), {}),
    (_IMAGE, distributions.Categorical(5), dict(
        num_features=2, use_lstm=True, lstm_size=4, instruction_length=3)),
    (_VECTOR, distributions.Gaussian(2), dict(
        use_lstm=True, lstm_size=4, normalise_observations=True)),
    (_VECTOR, distributions.MultiCategorical((2, 3)), dict(has_mask=True)),
    (_VECTOR, distributions.Categorical(3), dict(kind=a3c_agents.QAgent)),
], ids=['image', 'all inputs', 'continuous', 'masked', 'values'])
def test_saved_model_acts_alike(spec, distribution, others, tmp_path):
  loaded = _agent(spec, distribution, **others)
  saved_model.write(loaded, str(tmp_path))
  restored = tf.saved_model.load(str(tmp_path))
  memory = loaded.agent.initial_state(_B)
  state = restored.initial_state(_B)
  for step in range(3):
    inputs = _inputs(loaded, step)
    deterministic = step == 1
    unseen = types.EnvOutput(*[()] * len(types.EnvOutput._fields))
    expected, memory = loaded.agent.step(
        unseen._replace(**inputs), memory, tf.constant(_SEED), deterministic)
    actual = restored.act(inputs, state, _SEED, deterministic)
    state = actual['core_state']
    np.testing.assert_allclose(actual['action'], expected.action, atol=1e-6)
    np.testing.assert_allclose(
        actual['policy_logits'], expected.policy_logits, atol=1e-6)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(
        a, b, atol=1e-6), tf.nest.flatten(state), tf.nest.flatten(memory))


def test_tensorflow_alone_plays_it(tmp_path):
  saved_model.write(
      _agent(_VECTOR, distributions.Categorical(3), use_lstm=True, lstm_size=4),
      str(tmp_path))
  code = f"""
import sys
import tensorflow as tf
model = tf.saved_model.load({str(tmp_path)!r})
output = model.act(
    dict(observation=tf.zeros([2, 4]), reward=tf.zeros([2]),
         step_type=tf.zeros([2], tf.uint8)),
    model.initial_state(2), tf.constant([1, 0]), False)
assert output['action'].shape == [2] and 'impala_tf' not in sys.modules
"""
  subprocess.run([sys.executable, '-c', code], check=True, cwd=tmp_path)
