"""A3C's architecture: workers that share parameters, and one that keeps them.

Section 4 of Mnih et al. 2016 (arXiv:1602.01783v2). Actors are processes whose
workers play, learn, and change the parameters in memory of the learner's
process (`parameter_server`). Workers on another machine send their gradients to
the learner (`gradient_table`). All are found, started and supervised as in
IMPALA's architecture (`learner_with_actors`).
"""

import functools
import time
from typing import Callable, Optional

import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.a3c import gradient_table
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.comms import config_table
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import a3c_learner
from impala_tf.roles import a3c_workers
from impala_tf.roles import endpoint as endpoint_lib
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import cores
from impala_tf.runtime import interfaces
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.runtime import stop_signals

_POLL_SECS = 0.05


def run_learner(config: config_lib.Config, endpoint: endpoint_lib.Endpoint,
                control: control_lib.LoopControl, reports: interfaces.Reports,
                join: Callable[[], learner_group.Learners] =
                learner_group.alone) -> bool:
  """Runs the learner's process; see `learner_with_actors.run_learner`."""
  del join  # It is the only one.
  sizing.set_threads(1)
  learner = a3c_learner.Learner(config, endpoint.run_dir)
  variables = learner.server.agent.published_variables
  server = queue_lib.make_server(
      [*weights.make_tables(variables),
       # It stays empty: workers need no more than its name.
       reverb.Table.queue(learner.store.table_name, max_size=1),
       gradient_table.make_table(learner.store.parameters.size),
       config_table.make_table(config)], endpoint.port)
  address = f'localhost:{server.port}'
  config_table.publish(address, config)
  publisher = a3c_learner.Publisher(learner.store, address)
  store = store_lib.find([learner.store.table_name])
  assert store is not None  # It is this process's own.
  intake = gradient_table.Intake(
      address, store, links.make_apply(config, store), publisher,
      config.experiment.total_frames)
  return learner.learn(control, reports, publisher, _POLL_SECS, intake.check)


def run_actor(config: config_lib.Config, address: str, seed: int, task: int,
              control: control_lib.ActorControl,
              sharing: endpoint_lib.Sharing = endpoint_lib.NOT_SHARED,
              core: Optional[int] = None) -> None:
  """Runs a process of workers until KeyboardInterrupt.

  See `learner_with_actors.run_actor` for the arguments; nothing is replayed.
  Raises ConnectionError if the learner does not answer, has another config, or
  has gone; ConfigError if its memory is needed and cannot be opened, or see
  `a3c_workers.check_processes`.
  """
  del sharing
  # This counts the cores.
  num_processes = sizing.fitted(sizing.fit(config).actor.num_actors)
  a3c_workers.check_processes(config, task, num_processes)
  if core is not None:  # Before TensorFlow starts its threads.
    cores.stay_on(core)
  sizing.set_threads(1)
  control.wait_for_learner()
  store = a3c_workers.find_store(config, address)
  make_link = (
      functools.partial(a3c_workers.connect, config, address, control)
      if store is None else functools.partial(links.MemoryLink, config, store))
  workers = a3c_workers.make_workers(
      config, make_link, task, num_processes, seed)
  with stop_signals.Closing(workers):
    # The table's calls raise by themselves.
    while store is None or store.is_there():
      if (store is not None and
          store.counts.num_frames >= config.experiment.total_frames):
        time.sleep(_POLL_SECS)  # The learner is about to end.
      else:
        workers.run_segment()
        control.on_unroll(workers.stopwatch.secs)
  raise ConnectionError('the learner has gone')


def run_in_process(config: config_lib.Config, run_dir: str,
                   control: control_lib.LoopControl,
                   reports: interfaces.Reports = interfaces.NO_REPORTS,
                   updates_a_row: int = 100) -> bool:
  """Has all workers take turns in this process: the same numbers every time.

  `run_dir` exists; its checkpoints are resumed from. Rows are so many updates
  apart: means over a stretch of time would differ between runs. Returns whether
  the run is done.
  """
  tf.config.experimental.enable_op_determinism()
  learner = a3c_learner.Learner(config, run_dir)
  store = learner.store
  # On resume, use a new seed.
  workers = a3c_workers.make_workers(
      config, functools.partial(links.MemoryLink, config, store), task=0,
      num_processes=1, seed=store.counts.num_updates)

  def play():
    for _ in range(updates_a_row):
      if (control.should_stop() or
          store.counts.num_frames >= config.experiment.total_frames):
        return
      workers.run_segment()

  try:
    return learner.learn(control, reports, on_poll=play)
  finally:
    workers.close()
