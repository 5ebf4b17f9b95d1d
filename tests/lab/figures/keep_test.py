"""Small copies of runs and sweeps, from which displays draw the same."""

import json
import pathlib
import shutil

import pytest

from impala_tf.plots import runs as runs_lib
from impala_tf.sweeps import results as results_lib
from lab.figures import keep
from tests.fixtures import programs
from tests.fixtures import sweep_results

_SWEEP = pathlib.Path('testdata/sweeps/replay_pong')
_AGENT = pathlib.Path('testdata/agents/pong')


def _keep(*arguments):
  return programs.run('lab.figures.keep', *arguments)


def test_rows_are_evenly_spaced_and_have_what_is_drawn():
  rows = [{'frames': 10 * i, 'episode_return': i / 3, 'loss/total': 1.,
           'replayed/policy_lag': 2., 'level/atari/pong/frames': i,
           'level/atari/pong/policy_lag': 3.} for i in range(9)]
  kept = keep.thinned(rows, 3)
  assert [row['frames'] for row in kept] == [0, 40, 80]
  assert kept[1] == {'frames': 40, 'episode_return': 1.3333,
                     'replayed/policy_lag': 2., 'level/atari/pong/frames': 4}
  assert [row['frames'] for row in keep.thinned(rows, 100)] == [
      row['frames'] for row in rows]
  assert keep.thinned([], 3) == []


def test_report_reads_a_kept_run(tmp_path):
  run_dir = sweep_results.write_metrics(tmp_path / 'run', [
      {'frames': i, 'episode_return': float(i), 'loss/total': 0.}
      for i in range(500)])
  shutil.copy(_AGENT / 'config.gin', run_dir)
  (run_dir / 'evaluation.json').write_text(json.dumps({
      'level': 'atari/pong', 'mean': 19.26, 'episodes': 200, 'seed': 1,
      'trained_frames': 8_000_000}))
  (run_dir / 'checkpoints').mkdir()
  assert _keep(run_dir, tmp_path / 'kept').returncode == 0
  assert sorted(path.name for path in (tmp_path / 'kept').iterdir()) == [
      'config.gin', 'evaluation.json', 'metrics.jsonl']
  run, = runs_lib.load([str(tmp_path / 'kept')])
  curve = run.curve('atari/pong')
  assert len(curve) == 100 and curve[0] == (0, 0.) and curve[-1] == (499, 499.)
  assert run.results['atari/pong']['mean'] == 19.26


def _write_sweep(sweep_dir, statuses):
  """Writes a sweep with a run of each status, and a row for each run."""
  results = []
  for seed, status in enumerate(statuses, 1):
    results.append(sweep_results.result(
        'a', None, 'setting_01', seed, status=status))
    sweep_results.write_rows(sweep_dir, results[-1].run, [{'frames': 1}])
  (sweep_dir / 'results.csv').write_text(results_lib.to_csv(results))


def test_curves_of_finished_runs_alone_are_kept(tmp_path):
  sweep = tmp_path / 'sweep'
  _write_sweep(sweep, (results_lib.FAILED, results_lib.FINISHED,
                       results_lib.INTERRUPTED, results_lib.FINISHED))
  shutil.rmtree(sweep / 'runs/catch/a/setting_01/seed_4')
  assert _keep(sweep, tmp_path / 'kept').returncode == 0
  assert [path.relative_to(tmp_path / 'kept').as_posix() for path in sorted(
      (tmp_path / 'kept').rglob('*')) if path.is_file()] == [
          'results.csv', 'runs/catch/a/setting_01/seed_2/metrics.jsonl']
  assert (tmp_path / 'kept' / 'results.csv').read_text() == (
      sweep / 'results.csv').read_text()


def test_damaged_rows_leave_nothing_half_written(tmp_path):
  sweep = tmp_path / 'sweep'
  _write_sweep(sweep, (results_lib.FINISHED, results_lib.FINISHED))
  path = sweep / 'runs/catch/a/setting_01/seed_2/metrics.jsonl'
  path.write_text('{"frames": 1}\nframes\n{"frames": 2}\n')
  ran = _keep(sweep, tmp_path / 'kept')
  assert ran.returncode == 2 and 'damaged' in ran.stderr
  assert not (tmp_path / 'kept').exists()


@pytest.mark.parametrize('arguments, words', [
    ((_AGENT, 'docs'), 'docs is there already'),
    ((_AGENT, 's3://bucket/new'), 'or a URL; choose a new directory'),
    ((_SWEEP, '/proc/no/new'), '/proc/no/new cannot be written'),
    (('configs', 'new'), 'configs has neither results.csv nor config.gin'),
    ((_SWEEP, 'new', '--rows=1'), '--rows must be at least 2')])
def test_what_cannot_be_kept_is_refused_in_a_line(
    refused, tmp_path, arguments, words):
  source, output, *flags = arguments
  if output == 'new':
    output = tmp_path / output
  assert words in refused(keep.main, source, output, *flags)
  assert not (tmp_path / 'new').exists()
