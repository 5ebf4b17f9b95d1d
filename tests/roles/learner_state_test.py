"""A run that begins with another's parameters learns as a new one."""

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.roles import learner_state
from impala_tf.storage import checkpoint
from tests.fixtures import saved_parts


@pytest.fixture(name='source')
def _source(tmp_path):
  """Makes a run of Catch with random parameters, counts and slots."""
  path = tmp_path / 'source'
  parts = saved_parts.Parts(path)
  saved_parts.describe(path, parts)
  parts.randomise(1)
  parts.checkpointer.save(1, 9.)
  parts.randomise(2)
  parts.checkpointer.save(2, 1.)
  return str(path)


@pytest.mark.parametrize('which, name', [
    ('newest', 'ckpt-2'), ('best', 'best-1'), (1, 'best-1')])
@pytest.mark.slow
def test_parameters_are_taken_and_all_else_is_new(
    source, tmp_path, which, name):
  run_dir = str(tmp_path / 'new')
  line, = learner_state.write_first_checkpoint(
      saved_parts.CONFIG, run_dir, source, which)
  loaded = saved.load_agent(source, which)
  assert line == (
      f'parameters of {name} in {source} ({loaded.num_frames} frames)')
  fresh = saved_parts.Parts(run_dir)
  slots = [v.numpy() for v in fresh.learner.optimizer.mean_squares]
  parts = saved_parts.Parts(run_dir, seed=2)
  parts.randomise(7)
  learner = parts.learner
  assert checkpoint.restore(
      parts.modules, checkpoint.find(run_dir), whole=False).endswith('ckpt-0')
  saved_parts.assert_equal(learner.agent.variables, loaded.agent.variables)
  assert int(learner.num_frames) == int(learner.num_updates) == 0
  saved_parts.assert_equal(learner.optimizer.mean_squares, slots)
  assert not np.any([np.any(v) for v in learner.optimizer.momenta])
  assert float(parts.totals.best_return) == -np.inf
  assert learner.hyperparameters.entropy_cost.numpy() == np.float32(0.01)
  assert checkpoint.find_best(run_dir) is None


@pytest.mark.parametrize('level, words', [
    ('cartpole_swingup', r'observations float32 \[10, 5\], and not float32'),
    ('atari/pong', r'and not uint8 \[84, 84, 4\]')])
def test_other_observations_are_refused_and_nothing_is_written(
    source, tmp_path, level, words):
  config = saved_parts.CONFIG.replaced('environment', level=level)
  with pytest.raises(config_lib.UserError, match=words):
    learner_state.write_first_checkpoint(
        config, str(tmp_path / 'new'), source, 'newest')
  assert not (tmp_path / 'new').exists()
