"""Shared replays of sweeps' runs and populations' members."""

from typing import Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.runtime import ports
from impala_tf.runtime import role_commands
from impala_tf.sweeps import plan as plan_lib


class SharedReplay(NamedTuple):
  """The plan of a shared replay: its command, and the flags of its runs."""
  name: str  # Of the replay.
  command: Sequence[str]  # Of the replay, to follow `python -m`.
  flags: Mapping[str, Sequence[str]]  # Additional ones of each run, by name.


def check_sampling(config: config_lib.Config) -> None:
  """Raises ConfigError if a replay's sampling rules out sharing."""
  # One agent chains episodes and sets priorities. Others would not know what to
  # write again once the replay is lost, or whose loss counts.
  if config.replay.sampling != 'unrolls':
    raise config_lib.ConfigError(
        f'ReplayConfig.sampling is {config.replay.sampling!r}, but a replay '
        "that agents share is sampled by 'unrolls' only; set that, or share "
        'none')


def check(config: plan_lib.SweepConfig,
          groups: Sequence[plan_lib.Group]) -> None:
  """Raises ConfigError if the runs of a group cannot share a replay.

  They need replays that can be shared, and the same unrolls and replay.
  """
  for group in groups:
    loaded = [gin_config.load(config.tasks[run.task], run.gin_bindings())
              for run in group.runs]
    if not all(one.num_replayed for one in loaded):
      raise config_lib.ConfigError(
          f'SweepConfig.shared_replay: variant {group.variant!r} has runs '
          'without replay; set ReplayConfig.replay_fraction, or name the '
          'variants that share')
    for one in loaded:
      check_sampling(one)
    if len({(config_lib.data_fingerprint(one), one.replay.capacity_unrolls,
             one.replay.survives_resume) for one in loaded}) > 1:
      raise config_lib.ConfigError(
          f'SweepConfig.shared_replay: the settings of variant '
          f'{group.variant!r} cannot share a replay; they need the same level, '
          'environment, network, LearnerConfig.unroll_length, '
          'ReplayConfig.capacity_unrolls and survives_resume')


def plan(groups: Sequence[plan_lib.Group], to_do: Sequence[plan_lib.Run],
         directory: sweep_directory.SweepDirectory, host: str
         ) -> list[SharedReplay]:
  """Returns the shared replays that unfinished runs need, served on `host`."""
  names = {run.name for run in to_do}
  found = [group for group in groups
           if any(run.name in names for run in group.runs)]
  shared = []
  for group, port in zip(found, ports.choose_free(len(found))):
    address = f'{host}:{port}'
    agents = {run.name: i for i, run in enumerate(group.runs)}
    absent = [str(i) for name, i in agents.items() if name not in names]
    first = group.runs[0]
    task_path = directory.task_path(first)
    flags = [f'--config={task_path}', f'--num_agents={len(agents)}',
             *(f'--gin_binding={line}' for line in first.gin_bindings())]
    if absent:
      flags.append(f'--absent={",".join(absent)}')
    if gin_config.load(task_path, first.gin_bindings()).replay.survives_resume:
      flags.append(f'--run_dir={directory.replay_dir(group)}')
    shared.append(SharedReplay(
        group.name, role_commands.command('replay', address, *flags),
        {name: [f'--replay_address={address}', f'--agent={agent}']
         for name, agent in agents.items() if name in names}))
  return shared
