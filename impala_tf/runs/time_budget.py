"""Time budget of a frame on its way from the actor to the learner."""

import statistics
from typing import Dict

import rich.box
import rich.console
import rich.table

from impala_tf import config as config_lib
from impala_tf.runs import metrics
from impala_tf.runs import profiling
from impala_tf.runtime import sizing

_ROWS = 12  # The last minute.
_LABELS = {
    'weights': 'waiting for weights',
    'environment': 'stepping',
    'assembly': 'assembling unrolls',
    'write': 'writing to Reverb',
    'queue_full': 'blocked on the queue',
}


def compute(config: config_lib.Config, run_dir: str) -> Dict[str, float]:
  """Computes the seconds that an unroll spends in each hop, in turn.

  Actors measure their hops. The wait in the queue follows from how many unrolls
  wait there and how many come a second (Little's law). Batching is the rest of
  the policy lag, which counts from the fetching of parameters to learning. The
  run needs `--profile`; the result is empty if it ended too soon.
  """
  hop_times = profiling.read_hop_times(run_dir)
  rows = metrics.read_rows(run_dir)[-_ROWS:]
  if not hop_times or len(rows) < 2:
    return {}

  def mean_of(name):
    return statistics.fmean(row[name] for row in rows)

  learner = sizing.fit(config).learner
  updates = rows[-1]['updates'] - rows[0]['updates']
  update_secs = (rows[-1]['secs'] - rows[0]['secs']) / updates
  budget = {name: statistics.fmean(times[name] for times in hop_times)
            for name in hop_times[0]}
  playing_secs = sum(budget.values())
  budget['in the queue'] = (
      mean_of('queue_occupancy') * learner.queue_capacity
      / learner.batch_size * update_secs)
  budget['batching'] = max(0., mean_of('policy_lag') * update_secs
                           - playing_secs - budget['in the queue'])
  budget['learning'] = (1 - mean_of('learner_wait_share')) * update_secs
  return budget


def show(config: config_lib.Config, run_dir: str) -> None:
  """Prints the time budget of a run as a table, see `compute`."""
  budget = compute(config, run_dir)
  if not budget:
    print('No time budget: the run ended before there was one')
    return
  total = sum(budget.values())
  table = rich.table.Table(box=rich.box.SIMPLE)
  table.add_column('the life of an unroll')
  table.add_column('ms', justify='right')
  table.add_column('share', justify='right')
  for name, secs in budget.items():
    table.add_row(_LABELS.get(name, name), f'{secs * 1e3:.1f}',
                  f'{secs / total:.1%}')
  table.add_section()
  table.add_row('all', f'{total * 1e3:.1f}', '100.0%')
  rich.console.Console(highlight=False).print(table)
