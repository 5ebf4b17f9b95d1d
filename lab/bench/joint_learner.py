"""A learner on a core of its own, alone or among several, without actors.

Started by `lab.bench.several_learners` as `python -m
lab.bench.joint_learner CONFIG.gin CORE TASK [ADDRESS...]`. Several
learners agree before each update that all have a batch, as in training.
"""

import argparse
import os
import time

from impala_tf.core import experiment
from impala_tf.runs import gin_config
from impala_tf.runtime import host as host_lib
from impala_tf.runtime import learner_group
from impala_tf.runtime import sizing
from impala_tf.runtime import tf_threads
from impala_tf.runtime import waiting
from lab.bench import parts
from lab.bench import worker

_WARM_UP_UPDATES = 3
_WAIT_SECS = 300.


def _join(task, addresses):
  if len(addresses) < 2:
    return learner_group.alone()
  wait = waiting.Waiting('the other learners', _WAIT_SECS, lambda line: None)
  return learner_group.join(learner_group.Place(task, addresses), wait.poll)


class _Timed(host_lib.LearnerHost):
  """A host that stops at a time of the monotonic clock."""

  def __init__(self, end: float):
    self._end = end

  def should_stop(self) -> bool:
    return time.monotonic() > self._end


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('config')
  parser.add_argument('core', type=int)
  parser.add_argument('task', type=int)
  parser.add_argument('addresses', nargs='*')
  args = parser.parse_args()
  os.sched_setaffinity(0, {args.core})
  tf_threads.set_threads(1)
  learners = _join(args.task, args.addresses)
  config = sizing.fit(gin_config.load(args.config))
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  local_learner = experiment.make_learner(
      config, environment, learners.strategy)
  reader = learners.wrap_reader(parts.OneBatch(
      config,
      experiment.make_unroll_spec(config, environment, local_learner.agent)))
  environment.close()
  learner = learners.wrap_learner(local_learner)

  def update(host):
    batch = reader.next(host)
    if batch is not None:
      learner.update(batch)  # Waits for it.
    return batch is not None

  for _ in range(_WARM_UP_UPDATES):
    update(host_lib.LearnerHost())

  def measure(secs):
    start, cpu_start = time.monotonic(), time.process_time()
    num_updates = 0
    # All stop together, once one of them would.
    host = _Timed(start + secs)
    while update(host):
      num_updates += 1
    return {'updates': num_updates, 'wall_secs': time.monotonic() - start,
            'cpu_secs': time.process_time() - cpu_start}

  worker.serve(measure)


if __name__ == '__main__':
  main()
