"""Reports which optional speed-ups are in force in a run on this machine.

Processes of the run are looked at from outside. The rest follows from config
and machine, by the run's own code.
"""

import contextlib
import os
import pathlib
from typing import Any, Callable, Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import precision

# The anonymous file of parameters, as a process's list of mappings has it.
_SHARED_MEMORY = '/memfd:impala_tf_parameters'
_NOT_SEEN = 'not seen: the actors had just ended'


def in_force(config: config_lib.Config,
             actor_pids: Sequence[int]) -> dict[str, str]:
  """Returns the state of each speed-up by its name.

  `config` is that of the run, fitted to the machine. `actor_pids` are numbers
  of the actors' processes.
  """
  bfloat16 = precision.instructions() or 'no bfloat16'
  # `impala_tf` sets it for this process and, inherited, for all of the run.
  onednn = 'on' if os.environ['TF_ENABLE_ONEDNN_OPTS'] == '1' else 'off'
  return {
      'parameters': _parameters(config, actor_pids),
      'actors': _cores(actor_pids),
      'environments an actor': str(config.actor.num_envs),
      'precision of actors': precision.of_actor(config),
      'precision of the learner': precision.of_learner(config),
      'processor': f'has {bfloat16}; oneDNN {onednn}',
  }


def _see(look: Callable[[int], Any], pids: Sequence[int]) -> list[Any]:
  """Returns `look(pid)` of each process that has not ended meanwhile."""
  seen = []
  for pid in pids:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
      seen.append(look(pid))
  return seen


def _parameters(config: config_lib.Config, actor_pids: Sequence[int]) -> str:
  """Describes how actors receive parameters."""
  if config.learner_plays:
    return 'none are sent: the learner plays by itself'
  mappings = _see(lambda pid: pathlib.Path(f'/proc/{pid}/maps').read_text(),
                  actor_pids)
  sharing = [_SHARED_MEMORY in lines for lines in mappings]
  if actor_pids and not sharing:
    return _NOT_SEEN
  if not any(sharing):
    return 'through Reverb'
  if all(sharing):
    return 'through shared memory'
  return f'through shared memory for {sum(sharing)} of {len(sharing)} actors'


def _cores(actor_pids: Sequence[int]) -> str:
  """Describes on which cores the actors may run."""
  if not actor_pids:
    return 'within the learner\'s process'
  available = os.sched_getaffinity(0)
  cores = _see(os.sched_getaffinity, actor_pids)
  if not cores:
    return _NOT_SEEN
  if len(available) > 1 and all(len(own) == 1 for own in cores):
    numbers = ', '.join(str(min(own)) for own in cores)
    return f'pinned to a core each: {numbers}'
  return 'not pinned'
