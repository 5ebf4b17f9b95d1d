"""Actor and learner in turns, within one process."""

import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import training
from impala_tf import weights
from impala_tf.processes import learner_group
from impala_tf.processes import sizing


def run(config: config_lib.Config, run_dir: str,
        should_stop: training.StopFn = lambda: False,
        on_row: training.RowFn = lambda row: None) -> None:
  """Plays and learns.

  The same hops as between processes, and the same numbers from the same seed
  unless unrolls are replayed: Reverb's sampling takes no seed.

  Args:
    config: of the run.
    run_dir: as for `experiment.run_learner`.
    should_stop: as for `experiment.run_learner`.
    on_row: is given each row of metrics.
  """
  announced, config = config, sizing.fit(config)
  tf.config.experimental.enable_op_determinism()
  num_fresh, num_envs = config.num_fresh, config.actor.num_envs
  role = experiment.make_learner_role(
      config, run_dir, None, num_fresh + num_envs, announced,
      learner_group.alone())
  publisher = weights.DelayedPublisher(
      role.publisher, int(role.learner.num_updates.numpy()),
      config.actor.controlled_lag_updates or 0)
  actor = experiment.make_actor(config, role.address, seed=0)
  played = wanted = 0

  def play():
    nonlocal played
    while played < wanted + role.reader.refusals.total and not should_stop():
      actor.run_unroll()
      played += num_envs

  def produce():
    nonlocal wanted
    wanted += num_fresh
    play()

  def play_and_ask():  # While the learner waits, in place of what was refused.
    play()
    return should_stop()

  # A row an update: means over a stretch of time would differ between runs.
  experiment.train(config, role, publisher.publish, play_and_ask,
                   log_interval_secs=0., on_row=on_row, produce=produce)
