"""A population in turns, within one process: the same numbers every time.

Members of `./launch/population.sh` run at once and compare themselves with the
newest records of the others, which depend on chance. Here each trains until its
next decision, while the others rest.
"""

import dataclasses
from typing import Mapping

from impala_tf import config as config_lib
from impala_tf.pbt import populations
from impala_tf.roles import endpoint
from impala_tf.roles import in_process
from impala_tf.runs import metrics
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces


def run(members: Mapping[str, config_lib.Config],
        control: control_lib.LoopControl,
        reports: interfaces.Reports = interfaces.NO_REPORTS) -> None:
  """Trains a population, those with the fewest frames first.

  The same seeds give the same numbers, however often it is stopped between two
  turns. `members` has the config of each member by the existing directory of
  its run, whose checkpoints are resumed from.
  """
  unfinished = list(members)  # In order: of equal frames the first one plays.
  while unfinished and not control.should_stop():
    run_dir = min(unfinished, key=_frames)
    if _take_turn(members[run_dir], run_dir, control, reports):
      unfinished.remove(run_dir)


def _frames(run_dir: str) -> int:
  rows = metrics.read_rows(run_dir)
  return rows[-1]['frames'] if rows else 0


def _take_turn(config: config_lib.Config, run_dir: str,
               control: control_lib.LoopControl, reports: interfaces.Reports
               ) -> bool:
  """Trains a member until its next decision; returns whether it is done."""
  before = populations.read_published(run_dir)

  def should_stop():
    return (control.should_stop() or
            populations.read_published(run_dir) != before)

  return in_process.run(
      config, endpoint.Endpoint(run_dir),
      dataclasses.replace(control, should_stop=should_stop), reports)
