"""A new agent takes fitting parameters from a trained one, others are fresh."""

import dm_env
import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import saved
from impala_tf.agents import transfer
from impala_tf.maths import distributions

SPEC = dm_env.specs.Array((5,), np.float32)
HIDDEN, LSTM = 6, 4
THREE, FOUR = distributions.Categorical(3), distributions.Categorical(4)


def _config(**options):
  return config_lib.AgentConfig(
      torso='mlp', hidden_size=HIDDEN, lstm_size=LSTM, **options)


def _agent(value, distribution, num_tasks=None, num_features=0, **options):
  """Makes an agent all of whose variables have this value."""
  agent = agent_lib.Agent(distribution, _config(**options), num_tasks=num_tasks)
  agent.build(SPEC, num_features)
  for variable in agent.variables:
    variable.assign(tf.cast(tf.fill(variable.shape, value), variable.dtype))
  return agent


def _taken(agent):
  """Returns parts that have the source's value, 2, throughout."""
  return {name for name, variables in agent.parts.items()
          if all(np.all(v.numpy() == 2) for v in variables)}


@pytest.mark.parametrize('options', [
    {}, {'instruction_length': 3}, {'use_lstm': True, 'instruction_length': 3},
    {'num_features': 2, 'normalise_observations': True}])
def test_agent_of_the_same_task_is_taken_whole(options):
  agent = _agent(1, THREE, num_tasks=2, **options)
  assert not transfer.take_parameters(
      agent, _agent(2, THREE, num_tasks=2, **options))
  assert all(np.all(v.numpy() == 2) for v in agent.variables)


def test_head_of_other_actions_starts_fresh():
  agent = _agent(1, FOUR)
  line, = transfer.take_parameters(agent, _agent(2, THREE))
  assert line == ('the policy head starts fresh: it was for 3 actions, and is '
                  'for 4 actions')
  assert _taken(agent) == {'torso', 'baseline head'}
  assert all(np.all(v.numpy() == 1) for v in agent.parts['policy head'])


@pytest.mark.parametrize('old, new', [(THREE, FOUR), (FOUR, THREE),
                                      (THREE, distributions.Gaussian(3))])
def test_lstm_is_taken_but_for_its_last_action(old, new):
  agent = _agent(1, new, use_lstm=True)
  lines = transfer.take_parameters(agent, _agent(2, old, use_lstm=True))
  assert len(lines) == 2
  assert lines[1] == "the LSTM's input of the last action starts fresh"
  assert _taken(agent) == {'torso', 'baseline head', 'LSTM'}
  kernel, = agent.parts['LSTM inputs']
  num_actions = kernel.shape[0] - HIDDEN - 1  # Features and reward.
  assert num_actions == (4 if new is FOUR else 3)
  np.testing.assert_array_equal(
      kernel, [[2] * 4 * LSTM] * (HIDDEN + 1) + [[1] * 4 * LSTM] * num_actions)


@pytest.mark.parametrize('old, new', [(None, 1), (3, 2), (2, None)])
def test_baseline_of_other_levels_starts_fresh_with_its_moments(old, new):
  agent = _agent(1, THREE, num_tasks=new)
  line, = transfer.take_parameters(agent, _agent(2, THREE, num_tasks=old))
  assert line.startswith('the baseline head starts fresh: it was for values ')
  assert _taken(agent) == {'torso', 'policy head'}


def test_other_networks_and_observations_are_refused_in_one_line():
  source = saved.LoadedAgent(
      _agent(1, THREE), 1, 'ckpt-1', SPEC, _config(use_lstm=True))
  transfer.check(source, SPEC, source.agent, _config(use_lstm=True), {})
  with pytest.raises(config_lib.UserError) as raised:
    transfer.check(source, dm_env.specs.Array((5,), np.uint8), source.agent,
                   _config(), {})
  assert str(raised.value) == (
      'the agent to begin from was trained with observations float32 [5], and '
      'not uint8 [5]; AgentConfig.use_lstm True, and not False; train with the '
      'same, or without --init_from')
  with pytest.raises(config_lib.UserError, match='features 0, and not 2'):
    transfer.check(source, SPEC, _agent(1, THREE, num_features=2),
                   _config(use_lstm=True), {})
  with pytest.raises(config_lib.UserError, match='converted False, and not T'):
    transfer.check(source, SPEC, source.agent, _config(use_lstm=True),
                   {'actions': []})


def test_other_actions_may_be_in_units_of_their_bounds():
  source = saved.LoadedAgent(_agent(1, THREE), 1, 'ckpt-1', SPEC, _config())
  agent = _agent(1, distributions.Gaussian(2))
  transfer.check(source, SPEC, agent, _config(), {'actions': []})
