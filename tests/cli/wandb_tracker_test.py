"""Tests of the tracker as a process, with a stand-in and the real package."""

import json
import os
import pathlib

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from tests.fixtures import fake_wandb
from tests.fixtures import programs

pytestmark = pytest.mark.slow  # Each starts programs.

_CONFIG = config_lib.Config(
    optimizer=config_lib.OptimizerConfig(learning_rate=0.125))


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  run_dir = tmp_path / 'my run'
  (run_dir / 'evaluation').mkdir(parents=True)
  (run_dir / 'config.gin').write_text(gin_config.dumps(_CONFIG))
  return run_dir


def _append(directory, *rows):
  with open(directory / metrics.FILE_NAME, 'a', encoding='utf-8') as file:
    file.writelines(json.dumps(row) + '\n' for row in rows)


def _track(run_dir, variables, during=lambda: None, **options):
  """Runs a tracker, and something meanwhile, to the end of its input.

  Its input is empty if there is no `run_dir`.
  """
  with programs.running('-m', 'impala_tf.cli.wandb_tracker',
                        variables=variables, stdin=programs.PIPE,
                        **options) as tracker:
    tracker.stdin.write(f'{run_dir}\n' if run_dir else '')
    tracker.stdin.flush()
    during()
    tracker.stdin.close()
    tracker.stdin = None
    assert tracker.wait(programs.DEADLINE_SECS) == 0


def _fake(tmp_path, **variables):
  """Returns an environment with the stand-in, and a reader of its calls."""
  calls = tmp_path / 'calls.jsonl'
  path = fake_wandb.install(tmp_path / 'packages'), str(programs.ROOT)
  return {'PYTHONPATH': os.pathsep.join(path), 'WANDB_FAKE_CALLS': str(calls),
          **variables}, lambda name: [
      what for called, what in fake_wandb.read_calls(calls) if called == name]


def test_rows_are_sent_once_and_a_resumed_run_goes_on(run_dir, tmp_path):
  environment, calls = _fake(tmp_path)
  _append(run_dir, {'frames': 1, 'loss': 0.5, 'episode_return': None})

  def train_on():
    programs.wait_until(lambda: len(calls('log')) == 1, 'the first row')
    _append(run_dir, {'frames': 2, 'loss': 0.25})
    _append(run_dir / 'evaluation', {'frames': 2, 'episode_return': 3.})

  _track(run_dir, environment, train_on)
  assert calls('log') == [
      {'frames': 1, 'loss': 0.5}, {'frames': 2, 'loss': 0.25},
      {'frames': 2, 'evaluation/episode_return': 3.}]
  first, = calls('init')
  assert first['name'] == 'my run' and first['project'] == 'impala_tf'
  assert first['dir'] == str(run_dir) and first['resume'] == 'allow'
  assert first['config']['OptimizerConfig.learning_rate'] == 0.125
  assert calls('define_metric') == [['*', 'frames']]

  # After a kill the run learns frame 2 again, and goes on.
  metrics.drop_rows_after(str(run_dir), 1)
  _append(run_dir, {'frames': 2, 'loss': 0.3}, {'frames': 3, 'loss': 0.2})
  _track(run_dir, environment)
  assert calls('log')[3:] == [{'frames': 3, 'loss': 0.2}]
  assert [init['id'] for init in calls('init')] == [first['id']] * 2
  assert len(calls('finish')) == 2


def test_without_a_network_rows_are_kept_for_later(run_dir, tmp_path):
  environment, calls = _fake(tmp_path, WANDB_FAKE_NETWORK='dead')
  _append(run_dir, {'frames': 1})
  _track(run_dir, environment)
  assert [init['mode'] for init in calls('init')] == ['offline']
  assert calls('log') == [{'frames': 1}]
  line, = (run_dir / 'logs' / 'tracker.log').read_text().splitlines()
  assert 'does not answer (no answer within 60 s)' in line
  assert f'wandb sync --append {run_dir}/wandb/offline-run-*' in line


def test_run_that_could_not_begin_is_not_tracked(tmp_path):
  environment, calls = _fake(tmp_path)
  _track(None, environment)
  assert not calls('init')


def test_run_behind_a_url_is_left_though_its_store_has_threads(
    run_dir, tmp_path):
  environment, calls = _fake(tmp_path)
  # In place of a store's client, some of which are never done.
  with open(tmp_path / 'packages' / 'wandb' / '__init__.py', 'a') as package:
    package.write('import threading, time\n'
                  'threading.Thread(target=time.sleep, args=(3600,)).start()\n')
  _track(f'file://{run_dir}', environment, cwd=tmp_path)
  assert len(calls('finish')) == 1


def test_real_package_has_all_rows_offline(run_dir):
  pytest.importorskip('wandb')
  from wandb.proto import wandb_internal_pb2
  from wandb.sdk.internal import datastore
  environment = {'WANDB_MODE': 'offline', 'WANDB_SILENT': 'true'}
  _append(run_dir, {'frames': 1, 'loss': 0.5})
  _track(run_dir, environment)
  _append(run_dir, {'frames': 2, 'loss': 0.25})
  _track(run_dir, environment)

  found, ids = [], set()
  files = sorted(pathlib.Path(run_dir, 'wandb').glob('offline-run-*/*.wandb'))
  for path in files:
    store = datastore.DataStore()
    store.open_for_scan(str(path))
    while (data := store.scan_data()) is not None:
      record = wandb_internal_pb2.Record()
      record.ParseFromString(data)
      if record.HasField('run'):
        ids.add(record.run.run_id)
      items = {item.key or item.nested_key[0]: json.loads(item.value_json)
               for item in record.history.item}
      if items:
        found.append((items['frames'], items['loss']))
  assert found == [(1, 0.5), (2, 0.25)]
  assert len(files) == 2 and len(ids) == 1  # Each start has a file.
