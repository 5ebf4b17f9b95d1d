"""What is kept of runs and sweeps, and that displays draw the same from it."""

import json
import pathlib
import shutil

import pytest

from launch.analysis import keep
from launch.report import runs as runs_lib
from tests.fixtures import programs

_SWEEP = pathlib.Path('testdata/sweeps/replay_pong')
_AGENT = pathlib.Path('testdata/agents/pong')


def _keep(*arguments):
  return programs.run('launch.analysis.keep', *arguments)


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


def test_display_of_a_kept_sweep_has_the_same_table(tmp_path):
  kept = tmp_path / 'kept'
  ran = _keep(_SWEEP, kept, '--rows=200')  # More than there are.
  assert ran.returncode == 0, ran.stderr
  tables = []
  for sweep_dir in _SWEEP, kept:
    ran = programs.run('launch.analysis', 'replay', sweep_dir,
                       '--goals=-20,-15', f'--output={tmp_path / "x.png"}')
    assert ran.returncode == 0, ran.stderr
    tables.append(ran.stdout)
  assert tables[0] == tables[1] and '| pong | replay |' in tables[0]


def test_report_reads_a_kept_run(tmp_path):
  run_dir = tmp_path / 'run'
  run_dir.mkdir()
  shutil.copy(_AGENT / 'config.gin', run_dir)
  (run_dir / 'evaluation.json').write_text(json.dumps({
      'level': 'atari/pong', 'mean': 19.26, 'episodes': 200, 'seed': 1,
      'trained_frames': 8_000_000}))
  rows = [{'frames': i, 'episode_return': float(i), 'loss/total': 0.}
          for i in range(500)]
  (run_dir / 'metrics.jsonl').write_text(
      ''.join(f'{json.dumps(row)}\n' for row in rows))
  (run_dir / 'checkpoints').mkdir()
  assert _keep(run_dir, tmp_path / 'kept').returncode == 0
  assert sorted(path.name for path in (tmp_path / 'kept').iterdir()) == [
      'config.gin', 'evaluation.json', 'metrics.jsonl']
  run, = runs_lib.load([str(tmp_path / 'kept')])
  curve = run.curve('atari/pong')
  assert len(curve) == 100 and curve[0] == (0, 0.) and curve[-1] == (499, 499.)
  assert run.results['atari/pong']['mean'] == 19.26


@pytest.mark.parametrize('arguments, words', [
    ((_AGENT, 'docs'), 'docs is there already'),
    (('configs', 'new'), 'configs has neither results.csv nor config.gin'),
    ((_SWEEP, 'new', '--rows=1'), '--rows must be at least 2')])
def test_what_cannot_be_kept_is_refused_in_a_line(tmp_path, arguments, words):
  source, output, *flags = arguments
  if output == 'new':
    output = tmp_path / output
  ran = _keep(source, output, *flags)
  assert ran.returncode == 2
  assert words in ran.stderr and len(ran.stderr.splitlines()) == 1
  assert not (tmp_path / 'new').exists()
