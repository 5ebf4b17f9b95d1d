"""Tests of runs whose directory is a URL, as users start and disturb them.

Only TensorFlow can open a file at ram://, so that a test fails where the code
opens one in another way. Such files are those of one process; file:// is for
several processes.
"""

import argparse
import json

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import cluster
from impala_tf.cli import evaluate
from impala_tf.cli import plot
from impala_tf.cli import report
from impala_tf.cli import train
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.storage import files
from impala_tf.storage import line_log
from tests.fixtures import programs
from tests.fixtures.faults import runs

_CONFIG = config_lib.Config(
    environment=config_lib.EnvironmentConfig(level='catch'))


@pytest.fixture(name='url')
def _url(tmp_path):
  return f'ram:/{tmp_path}/run'


# The directory; tests/runs/run_directory_test.py has what holds of paths, too.


def test_logs_are_of_this_machine_and_of_one_run():
  assert run_directory.logs_path('runs/x') == 'runs/x/logs'
  one, other = (run_directory.logs_path(f'gs://bucket/{name}')
                for name in ('a/b', 'a/c'))
  assert one != other and not files.is_url(one)


def test_file_cannot_include_what_is_behind_a_url(url, tmp_path):
  files.make_directory(url)
  files.write(f'{url}/x.gin', gin_config.dumps(_CONFIG).encode())
  assert gin_config.load(f'{url}/x.gin') == _CONFIG
  path = tmp_path / 'y.gin'
  path.write_text(f"include '{url}/x.gin'\n")
  with pytest.raises(config_lib.ConfigError, match='there is no file'):
    gin_config.load(str(path))
  with pytest.raises(config_lib.ConfigError, match=f'cannot read {url}/z.gin'):
    gin_config.load(f'{url}/z.gin')


# Refusals.


@pytest.mark.parametrize('main, arguments', [
    (train.main, ['configs/catch.gin', '--run_dir={}']),
    (cluster.main, ['--config=configs/catch.gin', '--run_dir={}']),
    (evaluate.main, ['{}']), (plot.main, ['{}']), (report.main, ['{}'])])
def test_url_that_cannot_be_reached_is_refused_in_one_line(
    refused, main, arguments):
  line = refused(main, *(a.format('nosuch://bucket/run') for a in arguments))
  assert 'nosuch://bucket/run cannot be reached: TensorFlow here opens' in line


def test_store_that_fails_later_is_one_line_too(monkeypatch, capsys, call, url):

  def fail(path):
    raise files.RemoteError(5, 'the bucket is gone')

  files.make_directory(url)
  monkeypatch.setattr(metrics, 'read_rows', fail)
  assert call(plot.main, url) == 1
  assert capsys.readouterr().err == 'error: the bucket is gone\n'


def test_progress_is_shown_though_nobody_waits_for_it(url):
  files.make_directory(f'{url}/evaluation')

  def write(where, row):
    appender = line_log.open_for_appending(f'{where}/metrics.jsonl')
    appender.append(json.dumps(row).encode() + b'\n')
    appender.close()

  write(url, {'frames': 1, 'secs': 1.})
  newest = progress.NewestRow(url)
  shown = []
  line = argparse.Namespace(show=shown.append, explain_silence=str)

  def shows(row):
    newest.show(line)
    return shown == [row]

  write(f'{url}/evaluation', {'episode_return': 0.5})
  write(url, {'frames': 2, 'secs': 2.})
  programs.wait_until(
      lambda: shows({'frames': 2, 'secs': 2., 'evaluated_return': 0.5,
                     'evaluated_cut': None}), 'the row')


# Whole runs.

# Runs within one process, in a working directory that must stay empty.
_ALL_PROGRAMS = """
import json, os, signal, sys
from tensorboard.backend.event_processing import event_accumulator
from impala_tf.runs import metrics
from impala_tf.storage import files
from impala_tf.storage import line_log
from impala_tf.cli import evaluate, plot, train
from impala_tf.runs import progress
from impala_tf.cli import report

run, picture, tables = sys.argv[1:4]
training = sys.argv[4:]

def call(program, *arguments, code=0):
  sys.argv = ['x', *arguments]
  ended = program.main()
  assert ended == code, (program, ended)

def interrupt(line, row):
  if row['frames'] == 400:
    os.kill(os.getpid(), signal.SIGINT)

progress.ProgressLine.show = interrupt
for code in (130, 0):
  call(train, *training, f'--run_dir={run}', code=code)
  frames = [row['frames'] for row in metrics.read_rows(run)]
  assert frames == list(range(40, frames[-1] + 1, 40)), frames
events = event_accumulator.EventAccumulator(run + '/tensorboard')
events.Reload()
steps = [event.step for event in events.Scalars('policy_lag')]
call(evaluate, run, '--episodes=4')
call(plot, run, f'--output={picture}', '--metric=policy_lag')
call(report, run, f'--output={tables}')
print(json.dumps({
    'names': files.names(run), 'steps': steps,
    'checkpoints': files.names(run + '/checkpoints'),
    'evaluation': json.loads(files.read(run + '/evaluation.json')),
    'here': os.listdir('.')}), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_whole_run_and_all_who_look_at_it_open_files_by_tensorflow(tmp_path):
  (tmp_path / 'here').mkdir()
  picture, tables = tmp_path / 'curve.png', tmp_path / 'report'
  with programs.running(
      '-c', _ALL_PROGRAMS, 'ram://bucket/run', picture, tables,
      *programs.CATCH, '--network=open',
      runs.bind('ExperimentConfig.total_frames', 800),
      runs.bind('ExperimentConfig.in_process', True),
      runs.bind('ReplayConfig.replay_fraction', 0.5),
      runs.bind('LearnerConfig.batch_size', 16),
      runs.bind('ReplayConfig.survives_resume', True),
      cwd=tmp_path / 'here') as process:
    output, errors = process.communicate(timeout=800)
  assert process.returncode == 0, (output, errors)
  found = json.loads(output.splitlines()[-1])
  assert found['names'] == ['checkpoints', 'config.gin', 'evaluation.json',
                            'history.jsonl', 'metrics.jsonl', 'tensorboard']
  assert {'agent.json', 'replay', 'ckpt-20.index'} <= set(found['checkpoints'])
  assert found['steps'] == list(range(40, 801, 40))
  assert found['evaluation']['trained_frames'] == 800
  assert found['here'] == []
  assert 'Resuming catch in ram://bucket/run' in output
  assert picture.stat().st_size > 1000
  assert (tables / 'report.md').exists()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_run_that_is_killed_goes_on(tmp_path):
  run_dir, url = tmp_path / 'run', f'file://{tmp_path}/run'
  training = (
      'impala_tf', 'train', *programs.CATCH, f'--run_dir={url}',
      runs.bind('ExperimentConfig.total_frames', 10**9),
      runs.bind('ExperimentConfig.checkpoint_interval_secs', 1.))
  with programs.running('-m', *training, cwd=tmp_path) as process:
    run = runs.Run(run_dir, process)
    run.wait_for_checkpoint()
    run.wait_for_frames()
    # At any moment; it has no time to write a last checkpoint.
    learner, = programs.pids('learner', f'--run_dir={url}')
    programs.kill(learner)
    programs.kill(process.pid)
  programs.wait_until(lambda: not programs.pids(f'--run_dir={url}'),
                      'the end of all', runs.DEADLINE_SECS)
  killed_at = run.newest_checkpoint()
  with programs.running('-m', *training, cwd=tmp_path) as process:
    run = runs.Run(run_dir, process)
    run.wait_for_checkpoint()
    run.wait_for_frames()
    code, text = run.interrupt()
    assert code == 130, text
  log = tmp_path / run_directory.logs_path(url) / 'learner.log'
  assert f'Resuming from {url}/checkpoints/ckpt-{killed_at} ' in log.read_text()
  assert run.check_rows()[-1]['updates'] == run.newest_checkpoint()
  assert not (run_dir / 'logs').exists()
