"""A learner that counts whose unrolls it learns from.

`python -m tests.faults.counting_learner learner …` is `launch.role` otherwise.
What it has counted is in `FAULTS_DIR/counts.json`, task by task.
"""

import json
import os
import sys

import numpy as np

from impala_tf import learner
from launch import role
from tests.faults import environments

FILE_NAME = 'counts.json'
_MAX_ACTORS = 1_000


def main():
  counts = np.zeros(_MAX_ACTORS, np.int64)
  update = learner.Learner.update

  def counted_update(self, unroll):
    counts[:] += np.bincount(unroll.level_index, minlength=_MAX_ACTORS)
    path = environments.directory() / FILE_NAME
    new = path.with_suffix('.new')
    new.write_text(json.dumps(counts.tolist()))
    os.replace(new, path)
    return update(self, unroll)

  learner.Learner.update = counted_update
  return role.main()


if __name__ == '__main__':
  exit_code = main()
  sys.stderr.flush()
  os._exit(exit_code)
