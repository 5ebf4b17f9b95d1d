"""Measures the rows of the paper's table 1 side by side.

Each row is a real run of the same network on as many environments, cores and
unrolls a batch; the waiting differs. The runs of a task are alive at once, all
but one suspended. They are measured in turns, so that changes of the host's
speed cancel out. A task whose simulator is not installed is left out. Needs a
machine with nothing else to do.
"""

import argparse
import contextlib
import statistics
import sys
from typing import Any, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import factory
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runtime import cores
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from lab.bench import measure
from lab.bench import quiet
from lab.bench import report
from lab.bench import training
from lab.bench import turns as turns_lib

CONFIG = 'configs/table_1.gin'
_LEVELS = 'lab.bench.table_1_levels'
_NUM_ENVS = 32  # "batch size 32": each has an unroll in a batch of A2C.
REFERENCE = 'impala'

Result = dict[str, Any]


class Paper(NamedTuple):
  """The paper's numbers in a row of table 1."""
  cpus: int  # Of the machine.
  gpus: int
  frames_per_sec: Sequence[float]  # On task 1 and task 2, 4 an agent step.


# Espeholt et al. 2018, table 1, single machine: seekavoid_arena_01 is task 1,
# rooms_keys_doors_puzzle task 2.
PAPER_TABLE_1 = {
    'a3c': Paper(64, 0, (6_500, 9_000)),
    'a2c_sync_step': Paper(48, 0, (9_000, 5_000)),
    'a2c_sync_trajectory': Paper(48, 0, (16_000, 17_500)),
    'a2c_dynamic_batch': Paper(48, 1, (16_000, 13_000)),
    'impala': Paper(48, 0, (17_000, 20_500)),
    'impala_dynamic_batch': Paper(48, 1, (21_000, 24_000)),
}
# The paper's IMPALA with as many GPUs.
_PAPER_REFERENCES = {0: 'impala', 1: 'impala_dynamic_batch'}


class Task(NamedTuple):
  """A task that all rows are measured on."""
  level: str
  title: str  # Such as 'even steps'.
  # The paper's task with such steps: 0 is task 1, even ones; 1 task 2, uneven.
  papers: int


TASKS = {
    'pong': Task('atari/pong', 'even steps', 0),
    'vizdoom_basic': Task('vizdoom/basic', 'uneven steps', 1),
    'slow_restarts': Task('timed/slow_restarts', 'uneven steps', 1),
    'seekavoid_arena_01': Task(
        'dmlab/seekavoid_arena_01', "the paper's task 1", 0),
    'rooms_keys_doors_puzzle': Task(
        'dmlab30/rooms_keys_doors_puzzle', "the paper's task 2", 1),
}


class Row(NamedTuple):
  """A row to measure."""
  title: str
  bindings: Sequence[str]  # Of its config, beside `BINDINGS`.


def rows(num_envs: int, cores: int, unroll_length: int,
         steps_batches: bool = False) -> dict[str, Row]:
  """Lists rows by name, in the paper's order.

  `num_envs` and `cores` are those of each run. `steps_batches`: whether the
  simulator steps all environments of a process at once, on threads if the
  learner plays (`domain.Domain`).
  """
  # Actors: one a core, or fewer, with the same number of environments each.
  num_actors = max(n for n in range(1, num_envs + 1)
                   if n <= cores and not num_envs % n)
  actors = (f'ActorConfig.num_actors = {num_actors}',
            f'ActorConfig.num_envs = {num_envs // num_actors}')
  # One process that infers, and one for each environment.
  alone = (f'ActorConfig.env_processes = {num_envs}',)
  workers = ('ActorConfig.num_actors = 1', f'ActorConfig.num_envs = {num_envs}',
             *alone)
  return {
      'a3c': Row('A3C', (
          "ExperimentConfig.algorithm = 'a3c'",
          "ImpalaConfig.correction = 'none'",
          f'ActorConfig.num_actors = {num_actors}',
          f'AsyncConfig.num_workers = {num_envs}',
          f'AsyncConfig.max_segment_steps = {unroll_length}')),
      'a2c_sync_step': Row('batched A2C (sync step)', (
          *(() if steps_batches else alone),
          "ActorConfig.synchronisation = 'step'")),
      'a2c_sync_trajectory': Row('batched A2C (sync traj.)', (
          *actors, "ActorConfig.synchronisation = 'trajectory'")),
      'a2c_dynamic_batch': Row('batched A2C (dyn. batch)', (
          *workers, "ActorConfig.synchronisation = 'trajectory'")),
      'impala': Row('IMPALA', actors),
      'impala_dynamic_batch': Row('IMPALA (dyn. batch)', workers),
  }


# Alike in all rows, as is the batch, an unroll of each environment. No
# measurement has a checkpoint in it, and no suspended run has cores that others
# may not use.
BINDINGS = (
    # Ratios of A2C are 1, so that nothing is computed in bfloat16.
    "LearnerConfig.precision = 'float32'",
    'ExperimentConfig.checkpoint_interval_secs = 1e9',
    'ExperimentConfig.log_interval_secs = 0.5', 'ActorConfig.pinned = False')


def paper_numbers(name: str, task: Task) -> Result:
  """Returns the paper's numbers of a row, on the task that is like this one.

  `paper_ratio` is to its IMPALA with as many GPUs.
  """
  paper = PAPER_TABLE_1[name]
  reference = PAPER_TABLE_1[_PAPER_REFERENCES[paper.gpus]]
  speed = paper.frames_per_sec[task.papers]
  return {'paper_cpus': paper.cpus, 'paper_gpus': paper.gpus,
          'paper_frames_per_sec': speed,
          'paper_ratio': speed / reference.frames_per_sec[task.papers]}


def groups(names: Sequence[str], together: int) -> list[list[str]]:
  """Divides rows into groups of `together`, or fewer, each with IMPALA."""
  others = [name for name in names if name != REFERENCE]
  size = together - 1
  return [[*others[i:i + size], REFERENCE]
          for i in range(0, len(others), size)] or [[REFERENCE]]


def _settings(task: Task, names: Sequence[str], unroll_length: int,
              args: argparse.Namespace) -> dict[str, measure.Setting]:
  """Makes settings of rows; raises ConfigError if one cannot be trained."""
  every = rows(args.environments, sizing.num_cores(), unroll_length,
               factory.known_domain(task.level).steps_batches)
  settings = {}
  for name in names:
    settings[name] = measure.Setting(every[name].title, args.config, [
        *BINDINGS, f'LearnerConfig.batch_size = {args.environments}',
        *every[name].bindings, *args.gin_binding,
        f'EnvironmentConfig.level = {"single/" + task.level!r}'])
    beginning.check_names(settings[name].config())
  return settings


class Measured(NamedTuple):
  """A run's measurements."""
  windows: list[training.Window]  # One a round.
  peak_pss_mib: float  # See `training.TrainingRun`.


def _in_turns(names: Sequence[str], rounds: int) -> list[str]:
  """Lists runs in the order of measurement, which reverses in each round."""
  order: list[str] = []
  for number in range(rounds):
    order += reversed(names) if number % 2 else names
  return order


def measure_in_turns(settings: Mapping[str, measure.Setting], rounds: int,
                     secs: float) -> dict[str, Measured]:
  """Measures real runs in turns, while all the others are suspended.

  A first turn of `secs`, in which queues fill and graphs are traced, does not
  count.
  """
  with contextlib.ExitStack() as stack:
    runs = {}
    for name, setting in settings.items():
      runs[name] = training.TrainingRun(setting.config_path, setting.bindings)
      stack.callback(runs[name].close)
      runs[name].hold()
    for run_ in runs.values():
      _turn(run_, secs)
    windows: dict[str, list[training.Window]] = {name: [] for name in runs}
    for name in _in_turns(list(runs), rounds):
      windows[name].append(_turn(runs[name], secs))
    return {name: Measured(windows[name], run_.peak_pss_mib)
            for name, run_ in runs.items()}


def _turn(run_: training.TrainingRun, secs: float) -> training.Window:
  """Resumes a suspended run, measures it, and suspends it again."""
  run_.go_on()
  try:
    return run_.measure(secs)
  finally:
    run_.hold()


def summarise(measured: Mapping[str, Measured]) -> dict[str, Result]:
  """Computes speed, ratio, cost, lag and memory of each run.

  `cores` is the number that its processes used; `policy_lag_updates` the mean
  of rows, None without any; `ratio` the median of its speeds relative to
  IMPALA's in the same round. `ratio_low` and `ratio_high` end their range.
  """

  def speeds(name):
    return [window.frames / window.secs for window in measured[name].windows]

  results = {}
  for name, (windows, peak_pss_mib) in measured.items():
    frames = sum(window.frames for window in windows)
    secs = sum(window.secs for window in windows)
    cpu_secs = sum(sum(window.cpu_secs.values()) for window in windows)
    lags = [row['policy_lag'] for window in windows for row in window.rows
            if row.get('policy_lag') is not None]
    ratios = [x / y for x, y in zip(speeds(name), speeds(REFERENCE))]
    results[name] = {
        'frames_per_sec': frames / secs,
        'ratio': statistics.median(ratios),
        'ratio_low': min(ratios),
        'ratio_high': max(ratios),
        'cpu_secs_per_1000_frames': 1e3 * cpu_secs / frames,
        'cores': cpu_secs / secs,
        'policy_lag_updates': statistics.fmean(lags) if lags else None,
        'mib': peak_pss_mib}
  return results


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(prog='table1.sh', description=__doc__)
  turns_lib.add_flags(parser, rounds=5, secs=10., config=CONFIG)
  command_line.add_gin_binding(parser, 'changes one value of all rows',
                               'LearnerConfig.unroll_length = 100')
  parser.add_argument('--environments', type=int, default=_NUM_ENVS,
                      help='of each run, and unrolls in a batch (default: '
                      '%(default)s, the paper\'s batch)')
  parser.add_argument('--together', type=int, default=len(PAPER_TABLE_1),
                      help='most runs that are alive at once, IMPALA\'s among '
                      'them, which is started anew beside each group; fewer '
                      'need less memory (default: %(default)s)')
  parser.add_argument('--tasks', metavar='TASK,TASK',
                      help='which to measure: some of '
                      f'{", ".join(TASKS)} (default: all that are installed, '
                      'and slow_restarts only without VizDoom)')
  parser.add_argument('--rows', metavar='ROW,ROW',
                      help='which to measure beside impala: some of '
                      f'{", ".join(PAPER_TABLE_1)} (default: all)')
  return parser.parse_args()


def _names(flag: str, text: str, known: Sequence[str]) -> list[str]:
  """Parses comma-separated names; returns them in the order of `known`."""
  names = text.split(',')
  for name in names:
    if name not in known:
      raise config_lib.UserError(
          f'{flag} must be some of {", ".join(known)}, with commas between '
          f'them, but has {name!r}')
  return [name for name in known if name in names]


def _problem(task: Task) -> str | None:
  """Returns why a task cannot be measured here; None if it can."""
  try:
    factory.check_level(task.level)
  except config_lib.ConfigError as error:
    return str(error)
  return None


def _installed() -> list[str]:
  """Returns names of tasks that can be measured here; prints the others."""
  problems = {name: _problem(task) for name, task in TASKS.items()}
  if problems['vizdoom_basic'] is None:
    problems['slow_restarts'] = 'vizdoom_basic is there'
  for name, problem in problems.items():
    if problem:
      print(f'{name} is left out: {problem}', flush=True)
  return [name for name, problem in problems.items() if not problem]


def main() -> None:
  training.raise_on_sigterm()
  args = _parse_args()
  turns_lib.check(args)
  for flag, least in ('environments', 1), ('together', 2):
    config_lib.check_range(f'--{flag}', getattr(args, flag), at_least=least)
  chosen = list(PAPER_TABLE_1)
  if args.rows:
    chosen = _names('--rows', f'{args.rows},{REFERENCE}', chosen)
  tasks = _names('--tasks', args.tasks, list(TASKS)) if args.tasks else None
  config = gin_config.load(args.config, args.gin_binding)
  user_modules.load([_LEVELS])
  by_task = {name: _settings(
      TASKS[name], chosen, config.learner.unroll_length, args)
             for name in tasks or _installed()}
  quiet.warn()
  results = {'machine': cores.machine(), 'cores': sizing.num_cores(),
             'environments': args.environments, 'tasks': {}}
  for name, settings in by_task.items():
    measured: dict[str, Result] = {}
    for group in groups(chosen, args.together):
      measured.update(summarise(measure_in_turns(
          {row: settings[row] for row in group}, args.rounds, args.seconds)))
    measured = {row: {'title': settings[row].name, **measured[row],
                      **paper_numbers(row, TASKS[name])} for row in chosen}
    results['tasks'][name] = measured
    report.show_table_1(f'{name}: {TASKS[name].title}', measured)
    if args.json:  # Kept, should the next task fail.
      files.write_json(args.json, results)


if __name__ == '__main__':
  sys.exit(program.run(main))
