"""Save and restore: whole runs for resuming, agents alone for inference."""

import contextlib
import dataclasses
import errno
import json
import os
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from absl import logging
import dm_env
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.maths import distributions
from impala_tf.storage import files

_DIRECTORY = 'checkpoints'
_PREFIX = 'ckpt'
_PART = re.compile(rf'({_PREFIX}-\d+)\.(index|data-\d+-of-\d+)')
_AGENT_FILE = 'agent.json'
# What TensorFlow raises for files that are missing, cut short or altered.
_DAMAGE = (tf.errors.OpError, ValueError, AssertionError, IndexError)
# And for files behind a URL that cannot be had just now.
_NO_ANSWER = (tf.errors.UnavailableError, tf.errors.DeadlineExceededError,
              tf.errors.AbortedError, tf.errors.FailedPreconditionError,
              tf.errors.PermissionDeniedError, tf.errors.UnauthenticatedError)


class CheckpointError(config_lib.UserError):
  """No checkpoint could be read; the message says what to do."""


def replay_directory(run_dir: str) -> str:
  """Where the replay is saved beside the checkpoints."""
  return os.path.join(run_dir, _DIRECTORY, 'replay')


def _newest_first(run_dir: str) -> List[str]:
  """Checkpoint prefixes by number; does not trust TensorFlow's state file."""
  directory = os.path.join(run_dir, _DIRECTORY)
  numbers = []
  for name in files.names(directory):
    match = re.fullmatch(rf'{_PREFIX}-(\d+)\.index', name)
    if match:
      numbers.append(int(match.group(1)))
  return [os.path.join(directory, f'{_PREFIX}-{n}')
          for n in sorted(numbers)[::-1]]


def _restore(checkpoint: tf.train.Checkpoint, run_dir: str,
             whole: bool) -> Optional[str]:
  """Reads the newest checkpoint that is whole.

  Args:
    checkpoint: what to restore.
    run_dir: where from.
    whole: whether everything in the file must be wanted.

  Returns:
    Its path; None where there is none at all.

  Raises:
    CheckpointError: where there are some and all are damaged.
    OSError: where the run directory is a URL, and nobody answers there.
  """
  paths = _newest_first(run_dir)
  for path in paths:
    try:
      # `restore`, since `read` would not ask for TensorFlow's own counter, and
      # the file would hold one thing more than is wanted.
      status = checkpoint.restore(path)
      status.assert_existing_objects_matched()
      if whole:
        status.assert_consumed()
      else:
        status.expect_partial()  # Else TensorFlow warns of each value left.
      return path
    except _DAMAGE as error:
      if files.is_url(path) and isinstance(error, _NO_ANSWER):
        raise files.RemoteError(
            errno.EIO, f'{path}: {files.one_line(error)}') from error
      cause = str(error).strip().splitlines()[0][:200]
      logging.error('Checkpoint %s is damaged, trying the one before: %s',
                    path, cause)
  if paths:
    raise CheckpointError(
        f'all {len(paths)} checkpoints in {os.path.join(run_dir, _DIRECTORY)} '
        'are damaged; put back a good copy, or choose another run directory')
  return None


class Checkpointer:
  """Checkpoints of a training run in `RUN_DIR/checkpoints`."""

  def __init__(self, run_dir: str, keep: int, **parts: tf.Module):
    """Writes nothing yet.

    Args:
      run_dir: of the run.
      keep: how many of the newest checkpoints stay.
      **parts: what is saved; the agent goes by the name `agent`.
    """
    self._run_dir = run_dir
    self._keep = keep
    self._checkpoint = tf.train.Checkpoint(**parts)
    self._manager = tf.train.CheckpointManager(
        self._checkpoint, os.path.join(run_dir, _DIRECTORY), max_to_keep=keep,
        checkpoint_name=_PREFIX)

  def restore(self, tidy: bool = True) -> Optional[str]:
    """Restores the newest whole checkpoint, see `_restore`.

    Args:
      tidy: remove what a process that was killed while it wrote has left.
    """
    path = _restore(self._checkpoint, self._run_dir, whole=True)
    if tidy:
      self._remove_remains(path)
    return path

  def save(self, number: int) -> str:
    """Writes a checkpoint whole or not at all; returns its path.

    Args:
      number: orders checkpoints, e.g. learner updates.

    Raises:
      OSError: where it cannot be written; those that there are stay usable.
    """
    try:
      return self._manager.save(checkpoint_number=number)
    except tf.errors.OpError as error:
      self._remove_remains(None)  # They fill a disk that is full.
      raise OSError(f'checkpoint {number} could not be written to '
                    f'{self._manager.directory}: {error.message}') from error

  def _remove_remains(self, restored: Optional[str]) -> None:
    """Removes files of checkpoints that are not whole or not wanted any more.

    Args:
      restored: a path that is wanted.
    """
    wanted = {restored, *self._manager.checkpoints,
              *_newest_first(self._run_dir)[:self._keep]}
    directory = self._manager.directory
    for name in files.names(directory):
      if not name.startswith((f'{_PREFIX}-', 'checkpoint.tmp')):
        continue
      part = _PART.fullmatch(name)
      if part and os.path.join(directory, part.group(1)) in wanted:
        continue
      with contextlib.suppress(OSError):  # It does no harm but take room.
        files.remove(os.path.join(directory, name))


def describe_agent(run_dir: str, distribution: distributions.Distribution,
                   observation_spec: dm_env.specs.Array,
                   config: config_lib.AgentConfig,
                   num_tasks: Optional[int] = None) -> None:
  """Writes what `load_agent` needs beside the parameters.

  Args:
    run_dir: of the run; call this before its checkpoints are restored.
    distribution: of its policy.
    observation_spec: of one environment.
    config: of the agent.
    num_tasks: of the agent.

  Raises:
    CheckpointError: where there are checkpoints of another agent.
  """
  directory = os.path.join(run_dir, _DIRECTORY)
  files.make_directory(directory)
  description = {
      'num_actions': None,
      **dataclasses.asdict(distribution),
      'observation_shape': list(observation_spec.shape),
      'observation_dtype': str(observation_spec.dtype),
      'config': dataclasses.asdict(config),
      'num_tasks': num_tasks,
  }
  _refuse_another(run_dir, description)
  text = json.dumps(description, indent=2) + '\n'
  path = os.path.join(directory, _AGENT_FILE)
  if files.exists(path) and files.read(path) == text.encode():
    return  # Whoever finds all checkpoints damaged shall leave all as it is.
  files.write(path, text.encode())


def _refuse_another(run_dir: str, description: Dict[str, Any]) -> None:
  """Raises CheckpointError where checkpoints there are another agent's.

  To restore its parameters would fail as if they were damaged or, where they
  only meant something else, succeed.
  """
  directory = os.path.join(run_dir, _DIRECTORY)
  try:
    old = json.loads(files.read(os.path.join(directory, _AGENT_FILE)))
    # Knobs that came later have their defaults.
    old.update(dataclasses.asdict(config_lib.AgentConfig(**old['config'])))
  except files.RemoteError:
    raise
  except (OSError, ValueError, KeyError, TypeError):
    return  # There is none, or it is damaged; it will be written again.
  if not _newest_first(run_dir):
    return
  new = {**description, **description['config']}
  changes = [f'{name} {old.get(name)!r} and not {value!r}'
             for name, value in new.items()
             if name != 'config' and value != old.get(name)]
  if changes:
    raise CheckpointError(
        f'{directory} holds checkpoints of an agent with '
        f'{", ".join(changes)}; give the same config, or choose another run '
        'directory')


def _distribution(description: Mapping[str, Any]
                  ) -> distributions.Distribution:
  """The one whose size is there."""
  if 'action_size' in description:
    return distributions.Gaussian(description['action_size'])
  return distributions.Categorical(description['num_actions'])


class LoadedAgent(NamedTuple):
  """Parameters and how long they were trained.

  Attributes:
    agent: ready for `step` and `unroll`.
    num_frames: environment frames it has learned from.
  """
  agent: agent_lib.Agent
  num_frames: int


def load_agent(run_dir: str) -> LoadedAgent:
  """The agent of a run with its newest parameters, for inference.

  Needs neither gin nor the environment, and executes nothing from the files.

  Args:
    run_dir: of a run that has written a checkpoint.

  Returns:
    See `LoadedAgent`.

  Raises:
    CheckpointError: where there is no usable checkpoint.
  """
  path = os.path.join(run_dir, _DIRECTORY, _AGENT_FILE)
  if not files.exists(path):
    raise CheckpointError(f'{run_dir} holds no {_DIRECTORY}/{_AGENT_FILE}; is '
                          'it the directory of a run?')
  try:
    description = json.loads(files.read(path))
    agent = agent_lib.Agent(_distribution(description),
                            config_lib.AgentConfig(**description['config']),
                            num_tasks=description.get('num_tasks'))
    spec = dm_env.specs.Array(tuple(description['observation_shape']),
                              description['observation_dtype'])
  except (ValueError, KeyError, TypeError) as error:
    raise CheckpointError(f'{path} is damaged ({error}); training that is '
                          'resumed writes it again') from error
  agent.build(spec)
  learner = tf.Module()
  learner.num_frames = tf.Variable(0, dtype=tf.int64)
  checkpoint = tf.train.Checkpoint(agent=agent, learner=learner)
  if _restore(checkpoint, run_dir, whole=False) is None:
    raise CheckpointError(f'{run_dir} holds no checkpoint yet; train first')
  return LoadedAgent(agent, int(learner.num_frames))
