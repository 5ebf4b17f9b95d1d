"""A learner that looks at every unroll of `Counter` before it learns from it.

`python -m tests.faults.checked_learner learner …` is `launch.role` otherwise.
What it saw is in `FAULTS_DIR/learned.json`; it dies of what should not be.
"""

import json
import os
import sys
import time

import numpy as np

from impala_tf import learner
from launch import role
from tests.faults import environments

FILE_NAME = 'learned.json'
_INTERVAL_SECS = 0.2


class Checks:
  """Follows each environment of each process."""

  def __init__(self):
    self._newest = {}
    self._num_unrolls = 0
    self._written = 0.

  def add(self, unroll):
    """Fails where an unroll is torn, is not whole, or does not come in turn."""
    observation = unroll.env_outputs.observation.numpy()
    reward = unroll.env_outputs.reward.numpy()
    action = unroll.agent_outputs.action.numpy()
    for b in range(observation.shape[1]):
      ids, numbers = observation[:, b, :2], observation[:, b, 2]
      assert np.all(ids == ids[0]), f'several in one unroll: {ids}'
      assert np.all(np.diff(numbers) == 1), f'it is torn: {numbers}'
      expected = [environments.reward(n, a) for n, a in
                  zip(numbers[1:], action[:-1, b])]
      assert np.array_equal(reward[1:, b], expected), (
          f'rewards of others: {reward[1:, b]} instead of {expected}')
      key = '-'.join(str(int(i)) for i in ids[0])
      # The first of an actor begins with its first step.
      assert numbers[0] == self._newest.get(key, 0), (
          f'{key} was at {self._newest.get(key)}, now {numbers[0]} comes')
      self._newest[key] = int(numbers[-1])
      self._num_unrolls += 1
    if time.monotonic() - self._written > _INTERVAL_SECS:
      self.write()

  def write(self):
    self._written = time.monotonic()
    path = environments.directory() / FILE_NAME
    new = path.with_suffix('.new')
    new.write_text(json.dumps(
        {'unrolls': self._num_unrolls, 'newest': self._newest}))
    os.replace(new, path)


def main():
  checks = Checks()
  update = learner.Learner.update
  slow_secs = float(os.environ.get('FAULTS_SLOW_SECS', 0))

  def checked_update(self, unroll):
    checks.add(unroll)
    time.sleep(slow_secs)
    return update(self, unroll)

  learner.Learner.update = checked_update
  code = role.main()
  checks.write()
  return code


if __name__ == '__main__':
  exit_code = main()
  sys.stderr.flush()
  os._exit(exit_code)
