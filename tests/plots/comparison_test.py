"""Populations are compared with sweeps in pairs of the same seed."""

import pathlib
import shutil

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import report
from impala_tf.plots import comparison
from impala_tf.runs import sweep_directory
from tests.fixtures import written_populations


@pytest.fixture(name='paths', scope='module')
def _paths(tmp_path_factory):
  root = tmp_path_factory.mktemp('pbt')
  return tuple(str(written_populations.make(root / kind.name, kind))
               for kind in (sweep_directory.POPULATION, sweep_directory.SWEEP))


def test_best_of_both_are_paired_by_seed(paths):
  pairs = comparison.pairs(*paths)
  found = pairs['catch']
  assert [(p.seed, p.members[0].run.setting, p.runs[0].run.setting)
          for p in found] == [(1, 'a', 'a'), (2, 'a', 'a')]
  # Final: rows beyond 270 of 300 frames.
  assert found[0].members[0].final_return == pytest.approx(0.6 + 0.02 + 0.1)
  assert found[1].runs[0].final_return == pytest.approx(0.3 + 0.04 + 0.1)
  table = comparison.table(pairs)
  assert '| 0.74 | a | 0.44 | a | +0.30 | 0.69 (2) | 0.39 (2) | +0.30' in table
  assert '| **catch** | mean | 0.73 |  | 0.43 |  | +0.30 (+0.30 to' in table
  assert '| 0.68 | 0.38 | +0.30 (+0.30 to +0.30) |' in table
  found[1].runs[:] = [found[1].runs[0]._replace(final_return=0.84)]
  table = comparison.table(pairs)  # One run has failed.
  assert '| +0.10 (-2.44 to +2.64) |' in table
  assert '| 0.84 | a | -0.10 | 0.69 (2) | 0.84 (1) | -0.15 |' in table


def test_curves_are_means_over_seeds(paths):
  axes, = comparison.draw(*paths, comparison.pairs(*paths)).axes
  ends = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
  assert ends == {'population': pytest.approx(0.6 + 0.03 + 0.1),
                  'sweep': pytest.approx(0.3 + 0.03 + 0.1)}


def test_nothing_in_common_is_refused(paths, tmp_path):
  with pytest.raises(config_lib.UserError, match='no finished task in common'):
    comparison.pairs(paths[0], str(tmp_path))


def test_report_has_all_pictures(paths, tmp_path, call, capsys):
  paths = [shutil.copytree(path, tmp_path / pathlib.Path(path).name)
           for path in paths]
  shutil.rmtree(paths[0] / 'runs/catch/default/seed_1/a')  # b has copied it.
  path = paths[1] / 'sweep.gin'
  path.write_text(path.read_text() + 'SweepConfig.seed = 5\n')
  assert call(report.main, *paths, f'--output={tmp_path / "report"}') == 0
  assert {p.name for p in (tmp_path / 'report').iterdir()} == {
      'report.md', 'comparison.png', 'population_1.png', 'population_2.png',
      'decisions.csv'}
  text = (tmp_path / 'report' / 'report.md').read_text()
  assert '## Population catch/default/seed_2' in text
  assert 'Differences of their files: SweepConfig.seed (1, now 5).' in text
  assert 'Populations and the sweep' in capsys.readouterr().out
  assert call(report.main, paths[0], shutil.copytree(
      paths[0], tmp_path / 'other'), f'--output={tmp_path / "two"}') == 0
  assert '## Population other catch/default/seed_2' in (
      tmp_path / 'two' / 'report.md').read_text()


def test_sweep_alone_is_refused(paths, refused):
  assert 'name one directory of each' in refused(report.main, paths[1])
