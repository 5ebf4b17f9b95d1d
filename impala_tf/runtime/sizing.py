"""Numbers of processes, environments and threads that fit a machine.

Numbers that the config leaves open (None) are filled in from the number of
cores. The measurements behind the rules are in docs/performance.md.
"""

import dataclasses
import math
import os
import pathlib
from typing import List, Optional

from impala_tf import config as config_lib
from impala_tf.runtime import plurals
from impala_tf.runtime import precision
from impala_tf.suites import levels as levels_lib

# With fewer environments, inference and fetching parameters cost too much a
# step; with more, nothing is gained any more and unrolls grow old.
_MIN_ENVS, _MAX_ENVS = 16, 32
# An 'mlp' sees a few numbers: a call for 256 takes at most thrice as long
# as one for 16; beyond, a call takes as much longer as it serves more.
_MAX_ENVS_OF_MLP = 256
# Batches of unrolls that are being played at any time. Each adds an update to
# the policy lag, which should stay below 4.
_BATCHES_IN_PLAY = 2.5
# Share of learning in all work without replay, by torso. The learner gets half
# a core more, so that nothing waits for it; still more would be wasted.
_LEARNER_SHARE = {'shallow': 0.25, 'mlp': 0.25, 'deep': 0.75}

_CGROUP_LIMITS = ('/sys/fs/cgroup/memory.max',
                  '/sys/fs/cgroup/memory/memory.limit_in_bytes')


def num_cores() -> int:
  """Counts the cores that this process may use."""
  return len(os.sched_getaffinity(0))


def is_cpu(device: str) -> bool:
  """Whether this is TensorFlow's name of a CPU, and not of a GPU or TPU."""
  return 'CPU' in device.upper()


def learner_precision(config: config_lib.Config, device: str) -> str:
  """Decides how the torso computes on a learner's devices.

  Args:
    config: config of a run.
    device: TensorFlow's name of any of them; they are of one kind.

  Returns:
    See `precision.of_learner`.
  """
  return precision.of_learner(
      config, precision.cpu_flags(), is_cpu(device))


def actor_precision(config: config_lib.Config) -> str:
  """Decides how an actor's torso computes, see `precision.of_actor`."""
  return precision.of_actor(config, precision.cpu_flags())


def memory_bytes() -> int:
  """Returns the bytes that this machine has, or its container may use."""
  limits = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
  for path in _CGROUP_LIMITS:
    try:
      limits.append(int(pathlib.Path(path).read_text()))
    except (OSError, ValueError):  # Not there, or 'max'.
      pass
  return min(limits)


def _learner_share(config: config_lib.Config) -> float:
  """Share of learning in all work, which is larger with replay."""
  share = _LEARNER_SHARE.get(
      config.agent.torso, _LEARNER_SHARE['shallow'])  # The user's own.
  learning = share * config.learner.batch_size / config.num_fresh
  return learning / (learning + 1 - share)


def _max_envs(config: config_lib.Config) -> int:
  """Number of environments from which on a larger batch gains nothing."""
  return _MAX_ENVS_OF_MLP if config.agent.torso == 'mlp' else _MAX_ENVS


def fit(config: config_lib.Config,
        cores: Optional[int] = None) -> config_lib.Config:
  """Fills in the numbers that the config leaves to the machine.

  Args:
    config: config of a run.
    cores: number of the machine's cores; None for those that this process may
      use.

  Returns:
    The config with numbers for `ActorConfig.num_actors`, `ActorConfig.num_envs`
    and `LearnerConfig.num_threads`.

  Raises:
    ConfigError: where there are more levels than environments, more learners
      than actors, more environment processes than environments, or, with
      `ActorConfig.synchronisation`, not an environment for each unroll of a
      batch.
  """
  if cores is None:
    cores = num_cores()
  actor, learner = config.actor, config.learner
  num_actors = actor.num_actors
  num_learners = learner.num_learners
  if num_actors is None and _is_synchronous(config):
    num_actors = num_synchronous_actors(
        config, cores // (actor.env_processes or 1))
  elif num_actors is None:
    num_actors = max(1, cores // (actor.env_processes or 1))
    num_actors = max(1, num_actors // num_learners) * num_learners
  num_envs = actor.num_envs
  if num_envs is None and _is_synchronous(config):
    num_envs = max(1, learner.batch_size // _num_processes(config, num_actors))
  elif num_envs is None:
    num_envs = _MIN_ENVS
    # Runs in one process give the same numbers on every machine.
    if not config.experiment.in_process:
      wanted = int(
          _BATCHES_IN_PLAY * num_learners * config.num_fresh / num_actors)
      num_envs = max(_MIN_ENVS, min(_max_envs(config), wanted))
    num_envs = _shared_evenly(num_envs, _num_processes(config, num_actors),
                              len(levels_lib.expand(config.environment.level)),
                              _max_envs(config))
    num_envs = max(num_envs, actor.env_processes or 0)
  num_threads = learner.num_threads
  if num_threads is None and _is_synchronous(config):
    num_threads = cores
  elif num_threads is None:
    share = _learner_share(config)
    num_threads = min(cores, math.ceil(share * cores / num_learners + 0.5))
  _check_learners(num_learners, num_actors)
  _check_batch(config, _num_processes(config, num_actors), num_envs)
  _check_env_processes(config, num_envs)
  _check_every_level_is_played(
      config, _num_processes(config, num_actors), num_envs)
  return dataclasses.replace(
      config,
      actor=dataclasses.replace(actor, num_actors=num_actors,
                                num_envs=num_envs),
      learner=dataclasses.replace(learner, num_threads=num_threads))


def _num_processes(config: config_lib.Config, num_actors: int) -> int:
  """Number of processes that play: in process, one actor takes all turns."""
  return 1 if config.experiment.in_process else num_actors


def _is_synchronous(config: config_lib.Config) -> bool:
  """Whether those that play, and the learner, wait for each other."""
  return config.actor.synchronisation != 'none'


def num_synchronous_actors(config: config_lib.Config, room: int) -> int:
  """Counts the actors that play one batch: a divisor of its size.

  Args:
    config: config of batched A2C that leaves their number open.
    room: number of actors that there is room for, which decides unless
      `ActorConfig.num_envs` does.
  """
  batch_size = config.learner.batch_size
  if config.learner_plays:
    return 1
  if config.actor.num_envs is not None:
    return max(1, batch_size // config.actor.num_envs)
  most = min(batch_size, max(1, room))
  return max(n for n in range(1, most + 1) if batch_size % n == 0)


def _check_batch(config: config_lib.Config, num_processes: int,
                 num_envs: int) -> None:
  """Refuses synchronous actors whose unrolls do not make up a batch."""
  batch_size = config.learner.batch_size
  if _is_synchronous(config) and num_processes * num_envs != batch_size:
    raise config_lib.ConfigError(
        f'ActorConfig.synchronisation = {config.actor.synchronisation!r} needs '
        'an environment for each unroll of an update, but '
        f'{plurals.counted(num_processes, "process")} with '
        f'{plurals.counted(num_envs, "environment")} each are no batch of '
        f'{batch_size}; set LearnerConfig.batch_size to '
        f'{num_processes * num_envs}, or leave out ActorConfig.num_actors and '
        'ActorConfig.num_envs')


def _shared_evenly(num_envs: int, num_processes: int, num_levels: int,
                   max_envs: int) -> int:
  """Raises the environments of a process so that levels have equal shares.

  Where that would be too many, some levels are played by one environment more
  than others.
  """
  step = num_levels // math.gcd(num_levels, num_processes)
  even = math.ceil(num_envs / step) * step
  if even <= max_envs:
    return even
  return max(num_envs, math.ceil(num_levels / num_processes))


def _check_every_level_is_played(config: config_lib.Config, num_processes: int,
                                 num_envs: int) -> None:
  """Refuses fewer environments than levels: some would be left out silently."""
  level = config.environment.level
  num_levels = len(levels_lib.expand(level))
  if num_processes * num_envs < num_levels:
    at_least = math.ceil(num_levels / num_processes)
    raise config_lib.ConfigError(
        f'{num_levels} levels ({levels_lib.short_name(level)}) cannot be '
        f'shared out over {plurals.counted(num_processes, "actor process")} '
        f'with {plurals.counted(num_envs, "environment")} each; raise '
        f'ActorConfig.num_envs to {at_least} at least')


def _check_learners(num_learners: int, num_actors: int) -> None:
  """Refuses learners without actors: all others would wait for them."""
  if num_actors < num_learners:
    raise config_lib.ConfigError(
        f'{num_learners} learners cannot share '
        f'{plurals.counted(num_actors, "actor process")}; raise '
        f'ActorConfig.num_actors to {num_learners} at least')


def _check_env_processes(config: config_lib.Config, num_envs: int) -> None:
  """Refuses environment processes that would have nothing to do."""
  number = config.actor.env_processes
  if number is not None and number > num_envs:
    raise config_lib.ConfigError(
        f'ActorConfig.env_processes is {number}, but ActorConfig.num_envs '
        f'gives only {plurals.counted(num_envs, "environment")}; use that many '
        'at most')


def explain(config: config_lib.Config) -> List[str]:
  """Explains the sizes of a run: one line a number, with its reason."""
  cores = num_cores()
  fitted = fit(config, cores)
  actor, learner = fitted.actor, fitted.learner
  lines = []
  if learner.num_learners > 1:
    lines.append(_line(plurals.counted(learner.num_learners, 'learner')))
  reason = None
  if config.actor.num_actors is None:
    reason = _reason_for_actors(fitted, cores)
  actors = plurals.counted(actor.num_actors, 'actor process')
  if config.learner_plays:
    actors = 'no actor process'
    reason = "the learner plays: ActorConfig.synchronisation = 'step'"
  lines.append(_line(actors, reason))
  each = '' if config.learner_plays else ' each'
  if actor.env_processes:
    processes = plurals.counted(actor.env_processes, 'environment process')
    lines.append(_line(f'{processes}{each}'))
  reason = None
  if config.actor.num_envs is None:
    reason = _reason_for_envs(fitted)
  envs = plurals.counted(actor.num_envs, 'environment')
  lines.append(_line(f'{envs}{each}', reason))
  threads = plurals.counted(learner.num_threads, 'learner thread')
  if learner.num_learners > 1:
    threads += ' each'
  reason = None
  if config.learner.num_threads is None:
    reason = _reason_for_threads(fitted, cores)
  lines.append(_line(threads, reason))
  if learner.precision != 'float32':
    lines.append(precision.explain(config, precision.cpu_flags()))
  return lines


def num_workers(config: config_lib.Config, num_processes: int) -> int:
  """Counts workers that share parameters: one for each process at least."""
  return max(config.asynchronous.num_workers, num_processes)


def explain_workers(config: config_lib.Config) -> List[str]:
  """Explains the sizes of a run whose workers share parameters."""
  cores = num_cores()
  fitted = fit(config, cores)
  num_processes = _num_processes(config, fitted.actor.num_actors)
  reason = None
  if config.actor.num_actors is None:
    reason = _reason_for_actors(fitted, cores)
  return [_line(plurals.counted(num_processes, 'actor process'), reason),
          _line(plurals.counted(num_workers(config, num_processes), 'worker')
                + ' that take turns in them')]


def _line(what: str, reason: Optional[str] = None) -> str:
  return f'{what} ({reason or "as configured"})'


def _reason_for_actors(fitted: config_lib.Config, cores: int) -> str:
  if _is_synchronous(fitted):
    return (f'{plurals.counted(cores, "core")}, such that their environments '
            f'play a batch of {fitted.learner.batch_size}')
  reason = f'one for each of {plurals.counted(cores, "core")}'
  if fitted.actor.env_processes:
    env_processes = plurals.counted(
        fitted.actor.env_processes, 'environment process')
    reason = (f'{plurals.counted(cores, "core")} with {env_processes} for each '
              'actor, but at least one')
  if fitted.learner.num_learners > 1:
    reason += ', as many for each learner'
  return reason


def _reason_for_envs(fitted: config_lib.Config) -> str:
  if _is_synchronous(fitted):
    return f'a batch of {fitted.learner.batch_size} in all'
  num_unrolls = fitted.learner.num_learners * fitted.num_fresh
  unrolls = plurals.counted(num_unrolls, 'new unroll')
  reason = (f'{_MIN_ENVS} to {_max_envs(fitted)}, such that about '
            f'{_BATCHES_IN_PLAY} batches of {unrolls} are being played')
  num_levels = len(levels_lib.expand(fitted.environment.level))
  if num_levels > 1:
    reason += f', and that {num_levels} levels have their shares'
  return reason


def _reason_for_threads(fitted: config_lib.Config, cores: int) -> str:
  if _is_synchronous(fitted):
    return (f'all of {plurals.counted(cores, "core")}, which nobody else needs '
            'meanwhile')
  reason = f'{_learner_share(fitted):.0%} of {plurals.counted(cores, "core")}'
  if fitted.learner.num_learners > 1:
    reason += f' for {fitted.learner.num_learners} learners'
  return f'{reason}, and half of one'
