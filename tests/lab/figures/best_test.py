"""Tests of sweeps of the best settings."""

import pytest

from impala_tf.cli import sweep
from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from lab.figures import best
from tests.fixtures import sweep_results


def _result(variant, setting, final_return, rate, status=results_lib.FINISHED):
  return sweep_results.result(
      variant, final_return, setting, status=status, frames=10, secs=1.,
      bindings={'OptimizerConfig.learning_rate': rate,
                'ExperimentConfig.seed': 1, 'ImpalaConfig.correction': 'none'})


@pytest.fixture(name='sweep_dir')
def _sweep_dir(tmp_path):
  """Makes what is read of a finished sweep."""
  path = tmp_path / 'sweep'
  (path / 'tasks').mkdir(parents=True)
  (path / 'tasks' / 'catch.gin').write_text(gin_config.dumps(
      gin_config.load('configs/tasks/catch.gin')))
  (path / sweep_directory.RESULTS).write_text(results_lib.to_csv([
      _result('a3c', 'setting_01', 0.5, 0.001),
      _result('a3c', 'setting_02', 0.9, 0.002),
      _result('impala', 'setting_01', 0.8, 0.001),
      _result('impala', 'setting_02', 0.2, 0.002),
      _result('impala', 'setting_03', 1.0, 0.003, results_lib.FAILED),
      _result('a2c', 'setting_01', None, 0.001)]))
  return path


def test_best_setting_of_each_is_run_with_more_seeds(
    sweep_dir, tmp_path, monkeypatch):
  directory = tmp_path / 'best'
  monkeypatch.setattr('sys.argv', [
      'best', str(sweep_dir), str(directory), '--seeds=4'])
  best.main()
  config = gin_config.load_sweep(str(directory / 'sweep.gin'))
  # Seed 1, by which settings were chosen, is none of them.
  assert [run.seed for run in plan_lib.runs(config)[:8:2]] == [2, 3, 4, 5]
  # Batched A2C is missing: no run of it has a return.
  assert list(config.tasks) == ['catch.a3c', 'catch.impala']
  tasks, runs = sweep.load_runs(config)
  assert {name: task.optimizer.learning_rate
          for name, task in tasks.items()} == {
              'catch.a3c': 0.002, 'catch.impala': 0.001}
  assert len(plan_lib.runs(config)) == 8 and len(runs) == 2
  for task in tasks.values():
    assert task.impala.correction == 'none'  # A binding of the run.
    assert task.agent.hidden_size == 64  # The task's own.


def test_directory_without_a_sweep_is_refused(refused, tmp_path):
  line = refused(best.main, tmp_path, tmp_path / 'best')
  assert 'results.csv cannot be read (No such file' in line
  assert not (tmp_path / 'best').exists()
