"""Agents of finished or running runs, loaded for inference without gin."""

import dataclasses
import json
import os
import types
from typing import Any, Mapping, NamedTuple

import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import a3c_agents
from impala_tf.agents import agent as agent_lib
from impala_tf.agents import torsos
from impala_tf.maths import distributions
from impala_tf.storage import checkpoint
from impala_tf.storage import files
from impala_tf.storage import shipped

_AGENT_FILE = 'agent.json'
_DEFAULT_TYPE = 'float32'
_NO_INTERFACE: Mapping[str, Any] = types.MappingProxyType({})
_KINDS = {agent.kind: agent for agent in (
    agent_lib.Agent, a3c_agents.QAgent, a3c_agents.SeparateAgent)}


def describe_agent(run_dir: str, agent: agent_lib.Agent,
                   observation_spec: dm_env.specs.Array,
                   config: config_lib.AgentConfig,
                   interface: Mapping[str, Any] = _NO_INTERFACE,
                   is_float16: bool = False) -> None:
  """Writes the facts that `load_agent` needs beside the parameters.

  `interface` is that of the environment, `is_float16` how parameters are kept.
  Call it before the run's checkpoints are restored. Raises UserError if
  they are of another agent.
  """
  directory = os.path.join(run_dir, checkpoint.DIRECTORY)
  files.make_directory(directory)
  text = json.dumps({
      'num_actions': None,
      **dataclasses.asdict(agent.distribution),
      'observation_shape': list(observation_spec.shape),
      'observation_dtype': str(observation_spec.dtype),
      'num_features': agent.num_features,
      'has_action_mask': agent.has_action_mask,
      'config': dataclasses.asdict(config),
      'num_tasks': agent.num_tasks,
      'kind': agent.kind,
      'own_class': (None if type(agent) in _KINDS.values()
                    else type(agent).__name__),
      'interface': dict(interface),
      'parameters': 'float16' if is_float16 else _DEFAULT_TYPE,
  }, indent=2) + '\n'
  _refuse_another(run_dir, json.loads(text))
  path = os.path.join(directory, _AGENT_FILE)
  if files.exists(path) and files.read(path) == text.encode():
    return  # A run whose checkpoints are all damaged stays as it is.
  files.write(path, text.encode())


def _refuse_another(run_dir: str, description: dict[str, Any]) -> None:
  """Raises UserError if the run has checkpoints of another agent.

  Restoring its parameters would fail as if they were damaged, or succeed even
  if they only had another meaning.
  """
  directory = os.path.join(run_dir, checkpoint.DIRECTORY)
  try:
    old = json.loads(files.read(os.path.join(directory, _AGENT_FILE)))
    # Facts and options that came later have their defaults.
    old = {'num_features': 0, 'has_action_mask': False,
           'kind': agent_lib.Agent.kind, 'parameters': _DEFAULT_TYPE, **old}
    old.update(dataclasses.asdict(config_lib.AgentConfig(**old['config'])))
  except files.RemoteError:
    raise
  except (OSError, ValueError, KeyError, TypeError):
    return  # There is none, or it is damaged; it will be written again.
  if not (checkpoint.newest_first(run_dir) or checkpoint.find_best(run_dir)):
    return
  changes = [f'{name} {old.get(name)!r} and not {value!r}'
             for name, value in {**description, **description['config']}.items()
             if name not in ('config', 'interface', 'own_class')
             and value != old.get(name)]
  if changes:
    raise config_lib.UserError(
        f'{directory} holds checkpoints of an agent with {", ".join(changes)}; '
        'give the same config, or choose another run directory')


def _distribution(description: Mapping[str, Any]) -> distributions.Distribution:
  if 'action_size' in description:
    return distributions.Gaussian(description['action_size'])
  if 'nvec' in description:
    return distributions.MultiCategorical(tuple(description['nvec']))
  return distributions.Categorical(description['num_actions'])


class LoadedAgent(NamedTuple):
  """An agent with its parameters, ready for `step` and `unroll`.

  Attributes:
    agent: network and policy.
    num_frames: environment frames that it has learned from.
    checkpoint: name of the one that was read, like 'ckpt-1200'.
    observation_spec: array of one environment.
    config: of the network.
    interface: `BatchedEnvironment.interface`; empty in older runs.
  """
  agent: agent_lib.Agent
  num_frames: int
  checkpoint: str
  observation_spec: dm_env.specs.Array
  config: config_lib.AgentConfig
  interface: Mapping[str, Any] = _NO_INTERFACE


def load_agent(run_dir: str,
               which: checkpoint.Which = checkpoint.NEWEST) -> LoadedAgent:
  """Loads a run's agent with its parameters, for inference.

  Needs neither gin nor the environment, and executes nothing from the files.
  `run_dir` is the path or URL of a run or of an exported agent, or the name of
  a shipped one, such as 'pong'. `which` is 'newest', 'best' or the number of
  updates of a checkpoint.

  Raises UserError if there is no usable checkpoint, the agent is of a user's
  class, or the module that registers its torso was not imported.
  """
  run_dir = shipped.find_agent(run_dir)
  path = os.path.join(run_dir, checkpoint.DIRECTORY, _AGENT_FILE)
  if not files.exists(path):
    raise config_lib.UserError(
        f'{run_dir} holds no {checkpoint.DIRECTORY}/{_AGENT_FILE}; is it the '
        'directory of a run?')
  try:
    description = json.loads(files.read(path))
    config = config_lib.AgentConfig(**description['config'])
    own_class, usual = description.get('own_class'), agent_lib.Agent
    make = usual if own_class else _KINDS[description.get('kind', usual.kind)]
    agent = make(_distribution(description), config,
                 num_tasks=description.get('num_tasks'))
    spec = dm_env.specs.Array(tuple(description['observation_shape']),
                              description['observation_dtype'])
  except (ValueError, KeyError, TypeError, SyntaxError) as error:
    raise config_lib.UserError(
        f'{path} is damaged ({error}); training that is resumed writes it again'
    ) from error
  if own_class:
    raise config_lib.UserError(
        f"{path}: agents of the class {own_class}, a user's, cannot be loaded")
  try:
    torsos.check(config.torso)
  except config_lib.ConfigError as error:
    raise config_lib.UserError(f'{path}: {error}') from error
  agent.build(spec, description.get('num_features', 0),
              description.get('has_action_mask', False))
  learner = tf.Module()
  learner.num_frames = tf.Variable(0, dtype=tf.int64)
  is_rounded = description.get('parameters', _DEFAULT_TYPE) != _DEFAULT_TYPE
  stored = _rounded(agent) if is_rounded else agent
  restored = checkpoint.restore({'agent': stored, 'learner': learner},
                                checkpoint.find(run_dir, which), whole=False)
  if restored is None:
    raise config_lib.UserError(
        f'{run_dir} holds no checkpoint yet; train first')
  if is_rounded:
    for variable, value in zip(agent.variables, stored.values):
      variable.assign(tf.cast(value, variable.dtype))
  return LoadedAgent(agent, int(learner.num_frames), os.path.basename(restored),
                     spec, config, description.get('interface', {}))


def _rounded(agent: agent_lib.Agent) -> tf.Module:
  """Copies an agent's variables to `values` of a module, matrices as float16.

  Vectors, and moments, which may be beyond float16's 65,504, stay as they are.
  """
  module = tf.Module()
  module.values = [
      tf.Variable(tf.cast(v, tf.float16)
                  if v.trainable and v.shape.rank > 1 else v)
      for v in agent.variables]
  return module


def export_agent(loaded: LoadedAgent, directory: str,
                 is_float16: bool = False) -> None:
  """Writes only the files that `load_agent` needs to play with an agent.

  The parameters without the optimiser's slots are a third of a checkpoint, and
  a sixth as float16. `directory` has no checkpoints yet.
  """
  describe_agent(directory, loaded.agent, loaded.observation_spec,
                 loaded.config, loaded.interface, is_float16)
  learner = tf.Module()
  learner.num_frames = tf.Variable(loaded.num_frames, dtype=tf.int64)
  number = int(loaded.checkpoint.rpartition('-')[2])
  checkpoint.Checkpointer(
      directory, keep=1, learner=learner,
      agent=_rounded(loaded.agent) if is_float16 else loaded.agent).save(number)
