"""Measures a run and its parts in turns, so that host drift cancels out."""

import contextlib
import statistics
from typing import Any, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runtime import cores as cores_lib
from impala_tf.runtime import ports
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.suites import levels
from lab.bench import speedups
from lab.bench import training
from lab.bench import worker

# Parts of an agent step, in the order in which they run. The emulator is a part
# of the environment, and so it is in no sum.
PARTS = ('emulator', 'environment', 'inference', 'fetch', 'assembly', 'write',
         'read', 'learner', 'publish')
ACTOR_PARTS = ('environment', 'inference', 'fetch', 'assembly', 'write')
LEARNER_PARTS = ('read', 'learner', 'publish')
# Machines for which a speed is computed, and how many times a single thread's
# the learner's speed becomes with more of them, at most (docs/performance.md).
_OTHER_CORES = (4, 16)
_LEARNER_THREADS_GAIN = 1.2
_DATA_PLANE_WRITERS = 2
_SECS_A_ROUND = 12.  # Three rows of metrics by default.
# Parts are measured often and shortly, as the host's speed changes within
# seconds.
_PART_SECS = 0.5
# Long enough for the parts that work once a second.
_DISTRIBUTION_SECS = 1.
_PASSES_A_ROUND = 3
_SETTLE_SECS = 30.

Result = dict[str, Any]


class Setting(NamedTuple):
  """A configuration that is measured."""
  name: str  # For people.
  config_path: str  # Of a .gin file.
  bindings: Sequence[str] = ()  # Replace values of the file.

  def config(self) -> config_lib.Config:
    """Returns the config, fitted to the machine."""
    return sizing.fit(gin_config.load(self.config_path, self.bindings))


class _Parts(contextlib.ExitStack):
  """Worker processes that measure parts, warmed up and waiting."""

  def __init__(self, config_path: str, is_atari: bool):
    super().__init__()
    port, other_port = map(str, ports.choose_free(2))
    module = 'lab.bench.data_plane'
    self._writers = [
        self._start(module, 'writer', config_path, port)
        for _ in range(_DATA_PLANE_WRITERS)]
    self._reader = self._start(module, 'reader', config_path, port)
    self._single = {
        name: self._start('lab.bench.parts', name, config_path)
        for name in ('emulator', 'environment', 'inference', 'assembly',
                     'learner')
        if is_atari or name != 'emulator'}
    self._distribution = {
        name: self._start('lab.bench.parameters', name, config_path, other_port)
        for name in ('publish', 'fetch')}
    for started in (*self._writers, self._reader, *self._single.values(),
                    *self._distribution.values()):
      started.wait_until_ready()

  def _start(self, module, *arguments) -> worker.Worker:
    started = worker.Worker(module, [*arguments, *user_modules.flags()])
    self.callback(started.close)
    return started

  def measure(self, updates_per_sec: float) -> dict[str, float]:
    """Returns each part's CPU-ms per agent step, at the run's update rate."""
    costs = {}
    for name, part in self._single.items():
      part.ask(_PART_SECS)
      costs[name] = _cpu_ms_per_step(part.answer())
    for part in self._distribution.values():  # Both at once.
      part.ask(_DISTRIBUTION_SECS, updates_per_sec)
    for name, part in self._distribution.items():
      costs[name] = _cpu_ms_per_step(part.answer())
    written, read = self._run_data_plane(1)
    costs['write'] = _cpu_ms_per_step(written)
    costs['read'] = _cpu_ms_per_step(read)
    return costs

  def data_plane_steps_per_sec(self) -> float:
    """Measures agent steps per second in ready batches, with all writers."""
    _, read = self._run_data_plane(_DATA_PLANE_WRITERS)
    return read['steps'] / read['wall_secs']

  def _run_data_plane(self, num_writers):
    """Returns measurements of the first writer and of the reader."""
    for writer in self._writers[:num_writers]:
      # Longer than the reader looks, so that it never sees them stop.
      writer.ask(_PART_SECS + 1)
    self._reader.ask(_PART_SECS)
    read = self._reader.answer()
    written = [writer.answer() for writer in self._writers[:num_writers]]
    return written[0], read


def _cpu_ms_per_step(measured: worker.Measurement) -> float:
  return measured['cpu_secs'] / measured['steps'] * 1e3


def run(setting: Setting, secs: float) -> Result:
  """Measures one setting on the cores that this process may use.

  Training is measured for `secs`, in rounds; between them the run is suspended
  and the parts are measured. Returns the numbers that `--json` shows; see
  docs/performance.md.
  """
  config = setting.config()
  cores = sizing.num_cores()
  if config.experiment.in_process:
    cores = 1  # Turns are taken.
  is_atari = levels.expand(config.environment.level)[0].startswith('atari/')
  with contextlib.ExitStack() as stack:
    run_ = training.TrainingRun(setting.config_path, setting.bindings)
    stack.callback(run_.close)
    run_.hold()
    parts = stack.enter_context(_Parts(
        gin_config.config_path(run_.run_dir), is_atari))
    run_.go_on()
    settling = run_.measure(_SETTLE_SECS)
    applied = speedups.in_force(config, run_.actor_pids())
    windows: list[training.Window] = []
    costs, data_plane = [], []
    while sum(window.secs for window in windows) < secs:
      run_.hold()
      for _ in range(_PASSES_A_ROUND):
        costs.append(parts.measure(updates_per_sec(config, settling)))
        data_plane.append(parts.data_plane_steps_per_sec())
      run_.go_on()
      windows.append(run_.measure(_SECS_A_ROUND))
  return {
      'setting': setting.name,
      'start_to_first_update_secs': run_.start_secs,
      'peak_pss_mib': run_.peak_pss_mib,
      'speedups': applied,
      **summarise(config, cores, windows, costs, data_plane)}


def frames_per_step(config: config_lib.Config) -> int:
  """Returns the number of environment frames in an agent step."""
  sections: Mapping[str, Any] = {
      'atari': config.atari, 'dmlab': config.dmlab,
      'dmlab30': config.dmlab, 'vizdoom': config.vizdoom}
  first = levels.expand(config.environment.level)[0]
  section = sections.get(first.split('/')[0])
  return section.action_repeats if section else 1


def updates_per_sec(config: config_lib.Config,
                    window: training.Window) -> float:
  """Computes how many updates a second all learners together made."""
  steps_per_update = (config.learner.num_learners * config.num_fresh
                      * config.learner.unroll_length)
  return (window.frames / window.secs / steps_per_update
          / frames_per_step(config))


def summarise(config: config_lib.Config, cores: int,
              windows: list[training.Window], costs: list[dict[str, float]],
              data_plane_steps_per_sec: list[float]) -> Result:
  """Computes the reported numbers from measurements.

  Args:
    config: config of the run.
    cores: number of cores that the run had.
    windows: measured stretches of training.
    costs: CPU-ms a step by part, one entry a measurement.
    data_plane_steps_per_sec: agent steps a second of the data plane alone, one
      entry a measurement.
  """
  step_frames = frames_per_step(config)
  parts = {name: statistics.fmean(cost[name] for cost in costs)
           for name in PARTS if name in costs[0]}
  total = sum(parts[name] for name in ACTOR_PARTS + LEARNER_PARTS)
  frames, secs, stolen_secs, busy_secs = (
      sum(getattr(window, name) for window in windows)
      for name in ('frames', 'secs', 'stolen_secs', 'busy_secs'))
  cpu_ms_per_step = {
      role: sum(w.cpu_secs[role] for w in windows) * step_frames
            / frames * 1e3
      for role in windows[0].cpu_secs}
  whole = sum(cpu_ms_per_step.values())
  speed = frames / secs
  stolen_share = stolen_secs / secs / cores
  own_share = whole / 1e3 * speed / step_frames / cores
  # Without the cores that the host takes for others.
  allowed = cores * (1 - stolen_share) / total * 1e3 * step_frames
  rows = [row for window in windows for row in window.rows]
  return {
      'machine': cores_lib.machine(),
      'cores': cores,
      'num_actors': config.actor.num_actors,
      'num_envs': config.actor.num_envs,
      'learner_threads': config.learner.num_threads,
      'batch_size': config.learner.batch_size,
      'unroll_length': config.learner.unroll_length,
      'parts_cpu_ms_per_step': parts,
      'sum_cpu_ms_per_step': total,
      'allowed_frames_per_sec': allowed,
      'frames_per_sec': speed,
      'ratio': speed / allowed,
      'computed_frames_per_sec': {
          str(number): max(
              speed / allowed * step_frames * _steps_per_sec(parts, number),
              # The ratio holds what few busy cores lose to each other: more
              # cores give no less than was measured.
              speed if number >= cores else 0.)
          for number in _OTHER_CORES},
      'measured_secs': secs,
      'cpu_secs_per_1000_frames': whole / step_frames,
      'cpu_ms_per_step': cpu_ms_per_step,
      'extra_cpu_ms_per_step': {
          role: cpu_ms_per_step[role] - sum(parts[name] for name in names)
          for role, names in (('actors', ACTOR_PARTS),
                              ('learner', LEARNER_PARTS))
          if role in cpu_ms_per_step},
      'stolen_share': stolen_share,
      'others_share': max(0., busy_secs / secs / cores - own_share),
      'idle_share': 1 - stolen_share - own_share,
      'policy_lag_updates_mean': statistics.fmean(
          row['policy_lag'] for row in rows),
      'learner_wait_share': statistics.fmean(
          row['learner_wait_share'] for row in rows),
      'data_plane_frames_per_sec':
          statistics.fmean(data_plane_steps_per_sec) * step_frames,
  }


def _steps_per_sec(parts: dict[str, float], cores: int) -> float:
  """Computes the agent steps per second that `parts` (CPU-ms a step) allow."""
  learner = sum(parts[name] for name in LEARNER_PARTS)
  total = learner + sum(parts[name] for name in ACTOR_PARTS)
  return 1e3 * min(cores / total, _LEARNER_THREADS_GAIN / learner)
