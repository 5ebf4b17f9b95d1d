"""A sweep's directory: its table of results, and who may use it."""

import dataclasses

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import sweep_directory
from impala_tf.runtime import user_modules
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib

_CONFIG = plan_lib.SweepConfig(tasks={'catch': 'configs/catch.gin'},
                               variants={'a': {}, 'b': {}}, num_seeds=2)
_TASKS = {'catch': config_lib.Config()}


def test_results_stay_and_are_in_the_order_of_the_runs(tmp_path):
  path = str(tmp_path / 'sweep')
  runs = plan_lib.runs(_CONFIG)
  with sweep_directory.claim(path, _CONFIG, _TASKS) as directory:
    directory.record(runs[2], results_lib.FAILED, 'it broke')
    directory.record(runs[0], results_lib.FINISHED, '')
    directory.record(runs[1], results_lib.INTERRUPTED, '')
  with sweep_directory.claim(path, _CONFIG, _TASKS) as directory:
    assert [(r.run.name, r.status) for r in directory.results()] == [
        (runs[0].name, results_lib.FINISHED),
        (runs[1].name, results_lib.INTERRUPTED),
        (runs[2].name, results_lib.FAILED)]
    assert directory.runs_to_do(False) == [runs[1], runs[3]]
    assert directory.runs_to_do(True) == runs[1:]
  table = tmp_path / 'sweep' / 'results.csv'
  table.write_text(table.read_text(), 'utf-8-sig')  # As spreadsheets do.
  assert len(sweep_directory.read_results(path)) == 3
  table.write_text('task,variant\ncatch,x\n')
  with pytest.raises(config_lib.UserError, match=f'{table}: run 1: KeyError'):
    sweep_directory.read_results(path)


def test_two_at_a_time_are_refused_and_two_in_turn_are_not(tmp_path):
  for _ in range(2):
    with sweep_directory.claim(str(tmp_path), _CONFIG, _TASKS):
      with pytest.raises(config_lib.UserError, match='a sweep is running in'):
        with sweep_directory.claim(str(tmp_path), _CONFIG, _TASKS):
          pytest.fail('it was let in')


def test_moved_task_is_the_same_and_members_in_another_order_are_not(tmp_path):
  was = dataclasses.replace(_CONFIG, points={'x': {}, 'y': {}})
  moved = dataclasses.replace(was, tasks={'catch': 'moved.gin'})
  turned = dataclasses.replace(was, points={'y': {}, 'x': {}})
  for kind in sweep_directory.SWEEP, sweep_directory.POPULATION:
    path = str(tmp_path / kind.name)
    for config in was, moved:
      with sweep_directory.claim(path, config, _TASKS, kind):
        pass
  with pytest.raises(config_lib.UserError, match='order of SweepConfig.poi'):
    with sweep_directory.claim(path, turned, _TASKS, kind):
      pytest.fail('it was let in')
  with sweep_directory.claim(str(tmp_path / 'sweep'), turned, _TASKS):
    pass  # In a sweep the order makes no difference.


@pytest.mark.usefixtures('modules_forgotten')
def test_run_is_started_with_paths_that_hold_anywhere(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'my_file.py').touch()
  user_modules.load(['my_file.py'])
  run = plan_lib.runs(_CONFIG)[0]
  with sweep_directory.claim('sweep', _CONFIG, _TASKS) as directory:
    arguments = directory.arguments(run)
  assert arguments[:3] == ['impala_tf', 'train',
                           f'{tmp_path}/sweep/tasks/catch.gin']
  assert '--gin_binding=ExperimentConfig.seed = 1' in arguments
  assert f'--run_dir={tmp_path}/sweep/runs/{run.name}' in arguments
  assert f'--import={tmp_path}/my_file.py' in arguments
