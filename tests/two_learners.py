"""Runs of Catch with two learners, and what holds of what they leave."""

import numpy as np
import reverb

from impala_tf import checkpoint
from impala_tf import metrics
from tests import programs

FRAMES_PER_UPDATE = 2 * programs.CATCH_FRAMES_PER_UPDATE
FLAGS = ('--gin_binding=LearnerConfig.num_learners = 2',
         '--gin_binding=ActorConfig.num_actors = 2')


def pid(run_dir, learner):
  """Of the process of learner 0 or 1."""
  found, = programs.pids('learner', f'--run_dir={run_dir}', f'--task={learner}')
  return found


def check_end(run_dir):
  """The last checkpoint is of the last row of either learner."""
  rows, others = (
      metrics.read_rows(str(path)) for path in (run_dir, run_dir / 'learner_1'))
  _check_rows(rows)
  _check_rows(others)
  assert rows[-1]['updates'] == others[-1]['updates']
  # Means of the same numbers, as far as rows are of the same updates.
  for name in ('episodes', 'episode_return'):
    assert rows[-1][name] == others[-1][name]
  assert checkpoint.load_agent(str(run_dir)).num_frames == rows[-1]['frames']


def check_equal_parameters(addresses, deadline_secs):
  """Of three versions that both publish while they learn."""
  clients = [reverb.Client(address) for address in addresses]
  seen = [{}, {}]

  def versions():
    for client, parameters in zip(clients, seen):
      sample = next(iter(client.sample(
          'weights', emit_timesteps=False, unpack_as_table_signature=True)))
      parameters[int(sample.data[0])] = sample.data[1]
    common = set(seen[0]) & set(seen[1])
    return len(common) >= 3 and common

  common = programs.wait_until(versions, 'equal versions', deadline_secs)
  for version in common:
    first, second = (parameters[version] for parameters in seen)
    assert np.all(np.isfinite(first))
    np.testing.assert_array_equal(first, second)
  assert not np.array_equal(*(seen[0][v] for v in (min(common), max(common))))


def _check_rows(rows):
  """Of all learners' frames; none is written twice."""
  updates = [row['updates'] for row in rows]
  assert updates == sorted(set(updates))
  for row in rows:
    assert row['frames'] == row['updates'] * FRAMES_PER_UPDATE
    assert 0 <= row['policy_lag'] <= 20
