"""Measures what many actors cost their learner, and what they send and fetch.

    python -m lab.bench.many_actors [--actors=8,64]

A real learner has half of the cores. Thin actors on the others, see `crowd`,
send recorded unrolls as fast as it takes them. In turns of seconds they never
fetch parameters, fetch them as actors do (once for all their environments'
unrolls), and for every single unroll, which is what actors with one environment
each would do. Taking turns cancels changes of the host's speed. Needs a machine
with nothing else to do.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import psutil

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import factory
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runtime import local
from impala_tf.runtime import ports
from impala_tf.runtime import private_network
from impala_tf.runtime import program as program_lib
from impala_tf.runtime import role_commands
from impala_tf.runtime import sizing
from impala_tf.runtime import waiting
from lab.bench import report
from lab.bench import turns as turns_lib

NEVER, AS_ACTORS_DO, EACH_UNROLL = 'never', 'as actors do', 'for each unroll'
_START_TIMEOUT_SECS = 300.
_SETTLE_SECS = 0.5
_POLL_SECS = 0.01

# Far more than any benchmark takes; nothing is saved meanwhile.
_BINDINGS = (
    'ExperimentConfig.in_process = False',
    'LearnerConfig.num_learners = 1',
    'ExperimentConfig.total_frames = 1_000_000_000_000',
    'ExperimentConfig.checkpoint_interval_secs = 1e9',
    'ExperimentConfig.log_interval_secs = 0.2')


class Look(NamedTuple):
  """A snapshot of learner and actors, shortly after a row of metrics.

  Attributes:
    row: newest row of metrics.
    row_time: when the row was written, by `time.time`.
    time: when the snapshot was taken, by `time.monotonic`.
    counts: sums of all actors' counters, see `crowd.COUNTS`.
    learner_cpu_secs: CPU time of the learner's process.
    loopback_bytes: bytes that the loopback network has sent in all.
  """
  row: metrics.Row
  row_time: float
  time: float
  counts: Dict[str, float]
  learner_cpu_secs: float
  loopback_bytes: int


class Turn(NamedTuple):
  """A stretch of time in which all actors fetch in one way.

  Attributes:
    start: snapshot at the beginning.
    end: snapshot at the end.
    rows: rows of metrics in between, the end's included.
    learner_mib: memory of the learner's process alone, at the end.
  """
  start: Look
  end: Look
  rows: List[metrics.Row]
  learner_mib: float

  def updates_per_sec(self) -> float:
    """Returns the learner's updates a second."""
    start, end = self.start.row, self.end.row
    return (end['updates'] - start['updates']) / (end['secs'] - start['secs'])

  def counted(self, name: str) -> float:
    """Returns how much was added to one of `crowd.COUNTS`."""
    return self.end.counts[name] - self.start.counts[name]

  def age_updates(self) -> float:
    """Returns the sum of all fetched versions' ages, in updates, on arrival."""
    start, end = self.start, self.end
    updates_per_sec = ((end.row['updates'] - start.row['updates']) /
                       (end.row_time - start.row_time))
    number = self.counted('fetched')
    # Sum of the learner's updates at each fetch, at an even speed in a turn.
    updates = (number * start.row['updates'] + updates_per_sec * (
        self.counted('fetch_times') - number * start.row_time))
    return updates - self.counted('versions')


class _Learner(contextlib.ExitStack):
  """A real learner, and what can be seen of it."""

  def __init__(self, config: config_lib.Config, run_dir: str, port: int):
    super().__init__()
    path = gin_config.config_path(run_dir)
    pathlib.Path(path).write_text(gin_config.dumps(config))
    self._program = local.LocalProgram('learner', pathlib.Path(run_dir))
    self.callback(self._program.withdraw)
    self._program.place()
    self._program.start(role_commands.learner(
        f'localhost:{port}', 0, [], f'--run_dir={run_dir}'))
    self._process, = psutil.Process().children()  # Actors come later.
    self._rows = metrics.RowReader(run_dir)
    self._rows_path = os.path.join(run_dir, metrics.FILE_NAME)

  def check(self) -> None:
    """Raises RuntimeError where the learner has ended."""
    self._program.collect()
    if self._program.state is not program_lib.State.RUNNING:
      raise RuntimeError(
          f'the learner {self._program.how_it_ended()}; the end of its log:\n'
          f'{self._program.last_words()}')

  def new_rows(self) -> List[metrics.Row]:
    """Returns rows of metrics since the last call."""
    return self._rows.new_rows()

  def look(self, row: metrics.Row, counts: Dict[str, float]) -> Look:
    """Returns a snapshot; to be called as soon as the row was written."""
    cpu = self._process.cpu_times()
    return Look(row, os.stat(self._rows_path).st_mtime, time.monotonic(),
                counts, cpu.user + cpu.system, _loopback_bytes())

  def memory_mib(self) -> float:
    """Returns the memory of the learner's process alone."""
    return self._process.memory_full_info().uss / 2**20


def _loopback_bytes() -> int:
  return psutil.net_io_counters(pernic=True)['lo'].bytes_sent


class _Measurement:
  """A learner and its actors, measured in turns."""

  def __init__(self, learner: _Learner, crowd: Any):
    self._learner = learner
    self._crowd = crowd

  def turn(self, fetch_every: int, secs: float) -> Turn:
    """Has all actors fetch in one way for about `secs`."""
    self._crowd.fetch_every(fetch_every)
    start, _ = self._look_after(_SETTLE_SECS)
    end, rows = self._look_after(secs)
    return Turn(start, end, rows, self._learner.memory_mib())

  def _look_after(self, secs: float):
    """Returns a snapshot at the first row after `secs`, and all rows so far."""
    start = time.monotonic()
    rows = []
    while True:
      new = self._learner.new_rows()
      rows += new
      if new and time.monotonic() - start >= secs:
        return self._learner.look(rows[-1], self._crowd.counts()), rows
      self._learner.check()
      self._crowd.check()
      if time.monotonic() - start > secs + _START_TIMEOUT_SECS:
        raise TimeoutError(f'no update within {_START_TIMEOUT_SECS:.0f} s')
      time.sleep(_POLL_SECS)


def summarise(taken: Sequence[Tuple[str, Turn]]) -> Dict[str, Any]:
  """Computes the reported numbers for each way of fetching.

  Args:
    taken: ways and turns, one after the other; before and after each turn with
      fetching there is one without.
  """
  turns = {way: [turn for other, turn in taken if other == way]
           for way, _ in taken}
  unroll_bytes = [
      _total(turns[NEVER], name) / _total(turns[NEVER], 'unrolls')
      for name in ('sent_bytes', 'received_bytes')]
  results = {way: _summarise_way(way_turns)
             for way, way_turns in turns.items()}
  for way in turns.keys() - {NEVER}:
    # Compared with the mean of its neighbours, a steady drift cancels out.
    slowdowns = [
        1 - 2 * turn.updates_per_sec() / (
            before.updates_per_sec() + after.updates_per_sec())
        for (_, before), (other, turn), (_, after) in zip(
            taken, taken[1:], taken[2:]) if other == way]
    # The median, and its standard error as of a normal distribution: other
    # programs on the machine cause outliers.
    low, median, high = np.percentile(slowdowns, [25, 50, 75])
    results[way]['slowdown'] = median
    results[way]['slowdown_error'] = 0.93 * (high - low) / np.sqrt(
        len(slowdowns))
    results[way].update(
        _summarise_fetches(turns[way], results, way, unroll_bytes[1]))
  return {'sent_bytes_per_unroll': unroll_bytes[0],
          'received_bytes_per_unroll': unroll_bytes[1],
          'fetching': results}


def _total(turns: Sequence[Turn], name: str) -> float:
  return sum(turn.counted(name) for turn in turns)


def _summarise_fetches(
    turns: Sequence[Turn], results: Dict[str, Dict[str, float]], way: str,
    bytes_per_unroll: float) -> Dict[str, float]:
  """Returns what a fetch costs; empty where nothing was fetched."""
  fetched = _total(turns, 'fetched')
  if not fetched:
    return {}
  received = (_total(turns, 'received_bytes') -
              _total(turns, 'unrolls') * bytes_per_unroll)
  more_cpu_ms = (results[way]['learner_cpu_ms_per_update'] -
                 results[NEVER]['learner_cpu_ms_per_update'])
  return {
      'learner_cpu_ms_per_fetch':
          more_cpu_ms / results[way]['fetches_per_update'],
      'bytes_per_fetch': received / fetched,
      'age_updates': sum(turn.age_updates() for turn in turns) / fetched,
      'fetch_ms': _total(turns, 'fetch_secs') / fetched * 1e3,
  }


def _summarise_way(turns: Sequence[Turn]) -> Dict[str, float]:
  """Returns the numbers of one way of fetching, by itself."""

  def difference(value):
    return sum(value(turn.end) - value(turn.start) for turn in turns)

  updates = difference(lambda look: look.row['updates'])
  secs = difference(lambda look: look.time)
  updates_per_sec = updates / difference(lambda look: look.row['secs'])
  fetched = _total(turns, 'fetched')
  return {
      'updates_per_sec': updates_per_sec,
      'frames_per_sec': updates_per_sec * difference(
          lambda look: look.row['frames']) / updates,
      'learner_wait_share': float(np.mean(
          [row['learner_wait_share'] for turn in turns for row in turn.rows])),
      'learner_cpu_ms_per_update': difference(
          lambda look: look.learner_cpu_secs) / secs / updates_per_sec * 1e3,
      'learner_mib': max(turn.learner_mib for turn in turns),
      'loopback_mb_per_sec': difference(
          lambda look: look.loopback_bytes) / secs / 1e6,
      'unrolls_per_sec': _total(turns, 'unrolls') / secs,
      'unrolls_per_update': _total(turns, 'unrolls') / secs / updates_per_sec,
      'asked_per_sec': _total(turns, 'asked') / secs,
      'fetches_per_sec': fetched / secs,
      'fetches_per_update': fetched / secs / updates_per_sec,
  }


def _measure(args: argparse.Namespace, num_actors: int,
             recording: str) -> Dict[str, Any]:
  """Measures a number of actors on one learner."""
  from lab.bench import crowd as crowd_lib  # Takes seconds.
  cores = sorted(os.sched_getaffinity(0))
  learner_cores = cores[:max(1, len(cores) // 2)]
  actor_cores = cores[len(cores) // 2:]
  config = _config(args, num_actors, len(learner_cores))
  with contextlib.ExitStack() as stack:
    stack.callback(os.sched_setaffinity, 0, cores)
    run_dir = stack.enter_context(
        tempfile.TemporaryDirectory(prefix='impala_benchmark_'))
    port = ports.choose(None)
    os.sched_setaffinity(0, learner_cores)
    learner = stack.enter_context(_Learner(config, run_dir, port))
    os.sched_setaffinity(0, actor_cores)
    if not os.path.exists(recording):
      path = gin_config.config_path(run_dir)
      subprocess.run([sys.executable, '-m', 'lab.bench.crowd', path,
                      recording], check=True)
    address = f'localhost:{port}'
    waiting.for_port(address, lambda cause: learner.check())
    crowd = crowd_lib.Crowd(config, recording, address, num_actors,
                            fetch_every=0)
    stack.callback(crowd.close)
    ways = {NEVER: 0, AS_ACTORS_DO: crowd.num_envs, EACH_UNROLL: 1}
    measurement = _Measurement(learner, crowd)
    _warm_up(crowd, measurement)
    order = [NEVER, AS_ACTORS_DO, NEVER, EACH_UNROLL] * args.rounds + [NEVER]
    taken = [(way, measurement.turn(ways[way], args.seconds)) for way in order]
  return {
      'num_actors': num_actors, 'num_envs': crowd.num_envs,
      'learner_cores': len(learner_cores), 'actor_cores': len(actor_cores),
      'parameter_bytes': crowd.parameter_bytes,
      'unroll_bytes': crowd.unroll_bytes,
      'unrolls_per_batch': config.num_fresh, **summarise(taken)}


def _warm_up(crowd: Any, measurement: _Measurement) -> None:
  """Returns when each actor has sent a batch of unrolls, some with fetching."""
  while crowd.unrolls_sent().min() < crowd.num_envs:
    measurement.turn(crowd.num_envs, 0.)


def _config(args: argparse.Namespace, num_actors: int,
            learner_threads: int) -> config_lib.Config:
  return gin_config.load(args.config, [
      # A learner whose actors are on other machines has all cores of its own.
      f'LearnerConfig.num_threads = {learner_threads}',
      *args.gin_binding, *_BINDINGS, f'ActorConfig.num_actors = {num_actors}'])


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(
      description=__doc__,
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('--actors', default='8,64', metavar='N,N',
                      help='how many, one after the other (default: '
                      '%(default)s)')
  command_line.add_gin_binding(parser)
  turns_lib.add_flags(parser, rounds=30, secs=1.)
  return parser.parse_args()


def _numbers_of_actors(args: argparse.Namespace) -> List[int]:
  numbers = args.actors.split(',')
  if not all(text.isdecimal() and int(text) for text in numbers):
    raise config_lib.UserError(
        f'--actors must be numbers above 0 with commas between them, but is '
        f'{args.actors!r}')
  return [int(text) for text in numbers]


def _run(args: argparse.Namespace) -> None:
  numbers = _numbers_of_actors(args)
  turns_lib.check(args)
  config = _config(args, numbers[0], 1)
  factory.check_levels(config)
  sizing.fit(config)  # Refuses more levels than environments.
  # A private network has no other traffic in its counters, and no open port.
  if not private_network.is_settled():
    private_network.restart_within('lab.bench.many_actors')
  obstacle = private_network.obstacle()
  if obstacle:
    print(f'{beginning.open_port(None)}; no private network here: {obstacle}',
          flush=True)
  with tempfile.TemporaryDirectory(prefix='impala_benchmark_') as directory:
    recording = os.path.join(directory, 'unrolls')
    results = [_measure(args, number, recording) for number in numbers]
  report.show_many_actors(results)
  if args.json:
    report.write_json(args.json, results)


def main() -> int:
  """Returns the exit code."""
  return program.run(lambda: _run(_parse_args()))


if __name__ == '__main__':
  sys.exit(main())
