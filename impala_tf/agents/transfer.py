"""Transfer of a trained agent's parameters to a new agent."""

import dataclasses
from typing import Any, Mapping

import dm_env

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import saved

_FRESH = 'starts fresh'


def check(source: saved.LoadedAgent, observation_spec: dm_env.specs.Array,
          agent: agent_lib.Agent, config: config_lib.AgentConfig,
          interface: Mapping[str, Any]) -> None:
  """Raises UserError if a saved agent's network or observations differ."""
  same_actions = source.agent.distribution == agent.distribution

  def describe(spec, features, network, interface):
    return {'observations': f'{spec.dtype} {list(spec.shape)}',
            'features': features,
            # Whether actions are in units of their bounds; others start fresh.
            'EnvironmentConfig.converted': (
                same_actions and 'actions' in interface),
            **{f'AgentConfig.{name}': repr(value)
               for name, value in dataclasses.asdict(network).items()}}

  old = describe(source.observation_spec, source.agent.num_features,
                 source.config, source.interface)
  new = describe(observation_spec, agent.num_features, config, interface)
  changes = [f'{name} {old[name]}, and not {new[name]}'
             for name in old if old[name] != new[name]]
  if changes:
    raise config_lib.UserError(
        f'the agent to begin from was trained with {"; ".join(changes)}; '
        'train with the same, or without --init_from')


def take_parameters(agent: agent_lib.Agent,
                    source: agent_lib.Agent) -> list[str]:
  """Copies another agent's parameters, except those of other actions or levels.

  The agents are of the same network and observations, see `check`. Heads and an
  LSTM's weights of the last action may be of other actions or levels, and then
  stay as they are. Running moments of observations are copied with their count,
  so they hardly adapt to another task.

  Returns a line for each part that is not copied, or not wholly. Raises
  UserError if the agents are of different kinds.
  """
  if agent.kind != source.kind:
    raise config_lib.UserError(
        f'the agent to begin from is of kind {source.kind!r}, and the new one '
        f'of kind {agent.kind!r}; train with an algorithm that has the same '
        'kind, or without --init_from')
  lines = []
  same_actions = agent.distribution == source.distribution
  old_parts = source.parts
  for name, variables in agent.parts.items():
    if name == 'policy head' and not same_actions:
      lines.append(f'the policy head {_FRESH}: it was for '
                   f'{source.distribution}, and is for {agent.distribution}')
    elif name == 'baseline head' and agent.num_tasks != source.num_tasks:
      lines.append(f'the baseline head {_FRESH}: it was for '
                   f'{_levels(source)}, and is for {_levels(agent)}')
    elif name.endswith('LSTM inputs') and not same_actions:
      # A kernel's rows are the torso's features, the reward, the last action.
      (kernel,), (old_kernel,) = variables, old_parts[name]
      last_action = agent.distribution.encode(agent.no_actions(1))
      num_others = kernel.shape[0] - last_action.shape[-1]
      kernel[:num_others].assign(old_kernel[:num_others])
      lines.append(f"the {name[:-len(' inputs')]}'s input of the last action "
                   f'{_FRESH}')
    else:
      for variable, old in zip(variables, old_parts[name]):
        variable.assign(old)
  return lines


def _levels(agent: agent_lib.Agent) -> str:
  if agent.num_tasks is None:
    return 'values as they are'
  return f'values normalised for {agent.num_tasks} level(s)'
