"""Numbers of processes, environments and threads that suit a machine.

Numbers that the config leaves open (None) follow from the number of cores. The
measurements behind the rules are in lab/reports/sizes.md and speed.md.
"""

import contextlib
import math
import os
import pathlib
from typing import NamedTuple

from impala_tf import config as config_lib
from impala_tf.runtime import precision
from impala_tf.runtime import wording
from impala_tf.suites import levels as levels_lib

# With fewer environments, inference and fetching parameters cost too much a
# step; with more, unrolls grow old for no gain.
_MIN_ENVS, _MAX_ENVS = 16, 32
# A call of an 'mlp' for 256 takes at most thrice as long as one for 16; beyond,
# its time grows with the number.
_MAX_ENVS_OF_MLP = 256
# Batches of unrolls that are being played at any time. Each adds an update to
# the policy lag, which should stay below 4.
_BATCHES_IN_PLAY = 2.5
# Share of learning in all work without replay, by torso. The learner gets half
# a core more, so that nothing waits for it.
_LEARNER_SHARE = {'shallow': 0.25, 'mlp': 0.25, 'deep': 0.75}

# By the controllers in /proc/self/cgroup (none in version 2), the directory of
# control groups and the name of the file with a group's limit.
_CGROUP_LIMITS = {'': ('sys/fs/cgroup', 'memory.max'),
                  'memory': ('sys/fs/cgroup/memory', 'memory.limit_in_bytes')}


def num_cores() -> int:
  """Counts the cores that this process may use."""
  return len(os.sched_getaffinity(0))


def memory_bytes(root: pathlib.Path = pathlib.Path('/')) -> int:
  """Returns the memory of this machine, its container or job in bytes.

  `root` is the directory of `proc` and `sys`.
  """
  limits = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
  lines: list[str] = []
  with contextlib.suppress(OSError):
    lines = (root / 'proc/self/cgroup').read_text().splitlines()
  for _, controllers, path in (line.split(':', 2) for line in lines):
    if controllers in _CGROUP_LIMITS:
      directory, name = _CGROUP_LIMITS[controllers]
      group = pathlib.PurePath(path.lstrip('/'))
      for outer in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # Not there, or 'max'.
          limits.append(int((root / directory / outer / name).read_text()))
  return min(limits)


class _Size(NamedTuple):
  number: int
  reason: str = 'as configured'

  def line(self, noun: str, ending: str = '') -> str:
    return f'{wording.counted(self.number, noun)}{ending} ({self.reason})'


def _choose(config: config_lib.Config, cores: int | None = None
            ) -> tuple[_Size, _Size, _Size]:
  cores = num_cores() if cores is None else cores
  actors = _actors(config, cores)
  envs = _envs(config, actors.number)
  _check(config, actors.number, envs.number)
  return actors, envs, _threads(config, cores)


def _actors(config: config_lib.Config, cores: int) -> _Size:
  actor, num_learners = config.actor, config.learner.num_learners
  if config.experiment.in_process:
    return _Size(1, 'ExperimentConfig.in_process')
  if actor.num_actors is not None:
    return _Size(actor.num_actors)
  of_cores = wording.counted(cores, 'core')
  reason = f'one for each of {of_cores}'
  if actor.synchronisation != 'none':
    reason = (f'{of_cores}, such that their environments play a batch of '
              f'{config.learner.batch_size}')
  elif actor.env_processes:
    processes = wording.counted(actor.env_processes, 'environment process')
    reason = f'{of_cores} with {processes} for each actor, but at least one'
  if num_learners > 1:
    reason += ', as many for each learner'
  return _Size(num_actors(config, cores // (actor.env_processes or 1)), reason)


def _envs(config: config_lib.Config, num_processes: int) -> _Size:
  actor = config.actor
  if actor.num_envs is not None:
    return _Size(actor.num_envs)
  if actor.synchronisation != 'none':
    batch_size = config.learner.batch_size
    return _Size(max(1, batch_size // num_processes),
                 f'a batch of {batch_size} in all')
  most = _MAX_ENVS_OF_MLP if config.agent.torso == 'mlp' else _MAX_ENVS
  num_unrolls = config.learner.num_learners * config.num_fresh
  number = _MIN_ENVS
  # Runs in one process give the same numbers on every machine.
  if not config.experiment.in_process:
    wanted = int(_BATCHES_IN_PLAY * num_unrolls / num_processes)
    number = max(_MIN_ENVS, min(most, wanted))
  num_levels = len(levels_lib.expand(config.environment.level))
  number = _shared_evenly(number, num_processes, num_levels, most)
  reason = (f'{_MIN_ENVS} to {most}, such that about {_BATCHES_IN_PLAY} batches'
            f' of {wording.counted(num_unrolls, "new unroll")} are in play')
  if num_levels > 1:
    reason += f', and that {num_levels} levels have equal shares'
  return _Size(max(number, actor.env_processes or 0), reason)


def _threads(config: config_lib.Config, cores: int) -> _Size:
  num_learners = config.learner.num_learners
  of_cores = wording.counted(cores, 'core')
  if config.learner.num_threads is not None:
    return _Size(config.learner.num_threads)
  if config.actor.synchronisation != 'none':
    return _Size(cores, f'all of {of_cores}, which nobody else needs meanwhile')
  share = _LEARNER_SHARE.get(
      config.agent.torso, _LEARNER_SHARE['shallow'])  # The user's own.
  learning = share * config.learner.batch_size / config.num_fresh
  share = learning / (learning + 1 - share)  # It grows with replay.
  among = f', shared by {num_learners} learners' if num_learners > 1 else ''
  return _Size(min(cores, math.ceil(share * cores / num_learners + 0.5)),
               f'learning is assumed to take {share:.0%} of {of_cores}{among}; '
               'rounded up, with half a core to spare')


def fit(config: config_lib.Config,
        cores: int | None = None) -> config_lib.Config:
  """Fills in `num_actors`, `num_envs` and `num_threads` of a config.

  By default it counts the `cores` of this process. Raises ConfigError if a
  level, learner or environment process would have no environment, or, with
  `ActorConfig.synchronisation`, environments do not play one batch.
  """
  actors, envs, threads = _choose(config, cores)
  return config.replaced(
      'actor', num_actors=actors.number, num_envs=envs.number).replaced(
          'learner', num_threads=threads.number)


def fitted(number: int | None) -> int:
  """Returns a number that `fit` has filled in, as int for type checkers."""
  assert number is not None, 'fit() fills in what the config leaves open'
  return number


def num_actors(config: config_lib.Config, room: int) -> int:
  """Returns the number of actors of a run, given room for `room` actors.

  Synchronous ones play one batch, so they are a divisor of its size; `room` is
  ignored if `ActorConfig.num_envs` is set.
  """
  learner = config.learner
  if config.actor.synchronisation == 'none':
    return max(1, room // learner.num_learners) * learner.num_learners
  if config.learner_plays:
    return 1
  if config.actor.num_envs is not None:
    return max(1, learner.batch_size // config.actor.num_envs)
  most = min(learner.batch_size, max(1, room))
  return max(n for n in range(1, most + 1) if learner.batch_size % n == 0)


def _shared_evenly(num_envs: int, num_processes: int, num_levels: int,
                   max_envs: int) -> int:
  """Raises a process's number of environments so that levels share equally.

  Beyond `max_envs` some levels get one environment more than others instead.
  """
  step = num_levels // math.gcd(num_levels, num_processes)
  even = math.ceil(num_envs / step) * step
  if even <= max_envs:
    return even
  return max(num_envs, math.ceil(num_levels / num_processes))


def _check(config: config_lib.Config, num_processes: int,
           num_envs: int) -> None:
  """Raises ConfigError if a learner, level or process would have no work."""
  actor, learner = config.actor, config.learner
  environments = wording.counted(num_envs, 'environment')
  if num_processes < learner.num_learners:
    raise config_lib.ConfigError(
        f'{learner.num_learners} learners cannot share '
        f'{wording.counted(num_processes, "actor process")}; raise '
        f'ActorConfig.num_actors to {learner.num_learners} at least')
  if (actor.synchronisation != 'none'
      and num_processes * num_envs != learner.batch_size):
    raise config_lib.ConfigError(
        f'ActorConfig.synchronisation = {actor.synchronisation!r} needs an '
        'environment for each unroll of an update, but '
        f'{wording.counted(num_processes, "process")} with {environments} each '
        f'are no batch of {learner.batch_size}; set LearnerConfig.batch_size '
        f'to {num_processes * num_envs}, or leave out ActorConfig.num_actors '
        'and ActorConfig.num_envs')
  if actor.env_processes is not None and actor.env_processes > num_envs:
    raise config_lib.ConfigError(
        f'ActorConfig.env_processes is {actor.env_processes}, but '
        f'ActorConfig.num_envs gives only {environments}; use that many at '
        'most')
  level = config.environment.level
  num_levels = len(levels_lib.expand(level))
  if num_processes * num_envs < num_levels:
    at_least = math.ceil(num_levels / num_processes)
    raise config_lib.ConfigError(
        f'{num_levels} levels ({levels_lib.short_name(level)}) cannot be '
        f'shared out over {wording.counted(num_processes, "actor process")} '
        f'with {environments} each; raise ActorConfig.num_envs to {at_least} '
        'at least')


def explain(config: config_lib.Config) -> list[str]:
  """Explains the sizes of a run: one line for each number, with its reason."""
  actors, envs, threads = _choose(config)
  num_learners = config.learner.num_learners
  actor_line, each = actors.line('actor process'), ' each'
  if config.learner_plays or config.experiment.in_process:
    cause = ('ExperimentConfig.in_process' if config.experiment.in_process else
             "ActorConfig.synchronisation = 'step'")
    actor_line, each = f'no actor process (the learner plays: {cause})', ''
  lines = [
      num_learners > 1 and _Size(num_learners).line('learner'), actor_line,
      config.actor.env_processes and _Size(config.actor.env_processes).line(
          'environment process', each),
      envs.line('environment', each),
      threads.line('learner thread', ' each' if num_learners > 1 else ''),
      config.learner.precision != 'float32' and precision.explain(config)]
  return [line for line in lines if line]


def num_workers(config: config_lib.Config, num_processes: int) -> int:
  """Counts the workers that share parameters: at least one for each process."""
  return max(config.asynchronous.num_workers, num_processes)


def explain_workers(config: config_lib.Config) -> list[str]:
  """Explains the sizes of a run whose workers share parameters."""
  actors, *_ = _choose(config)
  workers = _Size(num_workers(config, actors.number))
  return [actors.line('actor process'),
          workers.line('worker', ' that take turns in them')]


def set_threads(num_threads: int) -> None:
  """Sets the number of threads (at least 1) if TensorFlow has not started yet.

  Two threads run one operation each, such as a layer's gradients of its input
  and of its kernel. That costs less CPU than sharing each operation. Three or
  more threads share operations, two at a time: otherwise a third core would be
  idle (lab/reports/speed.md has the numbers).
  """
  import tensorflow as tf  # Whoever only counts does without.
  # In the user's process it may have started; then its number stays.
  with contextlib.suppress(RuntimeError):
    tf.config.threading.set_intra_op_parallelism_threads(
        num_threads if num_threads > 2 else 1)
    tf.config.threading.set_inter_op_parallelism_threads(min(num_threads, 2))
