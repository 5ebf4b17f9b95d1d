"""Tests of the analysis, on tiny real sweeps and on numbers made by hand."""

import dataclasses
import pathlib

import pytest

from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from lab.figures import __main__ as analysis
from tests.fixtures import hosts
from tests.fixtures import programs

pytestmark = [pytest.mark.usefixtures('servers_stay'),
              pytest.mark.timeout(600)]  # A sweep has a dozen runs.

# Three updates of Catch, which see an episode end.
_TINY = {
    'ExperimentConfig.in_process': True,
    'ExperimentConfig.total_frames': 3 * 4 * 10,
    'AgentConfig.torso': 'mlp', 'AgentConfig.hidden_size': 8,
    'LearnerConfig.batch_size': 4, 'LearnerConfig.unroll_length': 10,
    'ActorConfig.num_envs': 4}
_CORRECTIONS = ('vtrace', 'none', 'vtrace_equal_updates', 'vtrace_replay',
                'none_replay', 'vtrace_value')


@pytest.fixture(name='sweep_dir', scope='module')
def _sweep_dir(tmp_path_factory, servers_stay):
  """Runs a sweep file in a tiny form, once; returns its directory."""
  del servers_stay  # Only to be there first.
  made = {}

  def make(name, variants, **replaced):
    if name not in made:
      path = str(tmp_path_factory.mktemp(name) / 'sweep')
      config = gin_config.load_sweep(f'configs/sweeps/{name}.gin')
      config = dataclasses.replace(
          config, tasks={'catch': 'configs/catch.gin'}, fixed=_TINY,
          num_seeds=1, variants={
              v: {name: value for name, value in config.variants[v].items()
                  if name not in _TINY} for v in variants}, **replaced)
      _run(path, config)
      made[name] = path
    return made[name]

  return make


def _run(path, config):
  """Does what `impala_tf.cli.sweep` does, but all runs in this process."""
  tasks = {task: gin_config.load(file) for task, file in config.tasks.items()}
  with sweep_directory.claim(path, config, tasks) as directory:
    for run in plan_lib.runs(config):
      pathlib.Path(directory.run_dir(run)).mkdir(parents=True)
      hosts.run_in_process(
          gin_config.load(config.tasks[run.task], run.gin_bindings()),
          directory.run_dir(run))
      result = directory.record(run, results_lib.FINISHED, '')
      assert result.frames >= 3 * 4 * 10 / 2 and result.final_return is not None


def _draw(display, path):
  """Runs the program; returns its table."""
  ran = programs.run('lab.figures', display, path)
  assert ran.returncode == 0, ran.stderr
  picture = pathlib.Path(path, f'{display}.png').read_bytes()
  assert picture[1:4] == b'PNG' and len(picture) > 5_000
  table = pathlib.Path(path, f'{display}.md').read_text()
  assert table.strip() in ran.stdout
  return table


@pytest.mark.slow
@pytest.mark.parametrize('display', ['table_2', 'figure_e2', 'figure_e3'])
def test_displays_of_corrections(sweep_dir, display):
  table = _draw(display, sweep_dir('corrections', _CORRECTIONS,
                                   num_settings=2))
  ours = table.split('The same of the paper')[0]
  assert '| catch |' in ours
  # Something was learned from in each that was run.
  lines = {line.split('|')[1].strip(): line for line in ours.splitlines()
           if line.startswith('|')}
  assert '–' not in lines['catch' if display == 'figure_e3' else 'V-trace']


@pytest.mark.slow
def test_figure_e1(sweep_dir):
  table = _draw('figure_e1', sweep_dir(
      'figure_e1', ('vtrace_lag_0', 'vtrace_lag_10', 'none_lag_0')))
  line, = [x for x in table.splitlines() if x.startswith('| catch | V-trace')]
  assert [cell.strip() == '–' for cell in line.split('|')[3:-1]] == [
      False, True, False, True, True]  # Lags 0, 1, 10, 100, 500.


def test_replay_against_no_replay(sweep_dir):
  table = _draw('curves', sweep_dir('replay_pong', ('no_replay', 'replay')))
  assert '| catch | no_replay | 1 | 120 |' in table
  assert '| catch | replay | 1 | 120 |' in table


@pytest.mark.slow
def test_figure_4_is_of_the_best_settings(sweep_dir, tmp_path):
  path = sweep_dir('figure_4', ('a2c', 'impala'), num_settings=2)
  table = _draw('ranks', path)
  assert '| catch | a2c | 2 |' in table and '| catch | impala | 2 |' in table
  ran = programs.run('lab.figures.best', path, tmp_path, '--seeds=2')
  assert ran.returncode == 0, ran.stderr
  seeds = str(tmp_path / 'seeds')
  _run(seeds, gin_config.load_sweep(str(tmp_path / 'sweep.gin')))
  table = _draw('figure_4', seeds)
  assert '| catch | a2c | 2 |' in table and '| catch | impala | 2 |' in table


@pytest.mark.parametrize('display, sweep, words', [
    ('figure_e1', 'figure_e1', '*Lag of 500: minus V-trace*'),
    ('lags', 'figure_e1', '*Lag of 500: minus V-trace*'),
    ('figure_e3', 'corrections', 'cartpole_swingup'),
    ('figure_4', 'figure_4_seeds', 'kung_fu_master'),
    ('speedup', 'a3c_speedup', '1-step Q'),
    ('curves', 'replay_capacity', '10000'),
    ('curves', 'replay_pong', 'equal_updates'),
    ('curves', 'pong_one_change', 'epsilon_0.01')])
def test_display_with_curves_is_redrawn_from_what_is_kept(
    tmp_path, display, sweep, words):
  ran = programs.run('lab.figures', display, f'testdata/sweeps/{sweep}',
                     f'--output={tmp_path}/x.png')
  assert ran.returncode == 0, ran.stderr
  assert f' {words} |' in ran.stdout and '| – |' not in ran.stdout
  assert (tmp_path / 'x.png').stat().st_size > 20_000


@pytest.mark.parametrize('sweep', ['bias_correction', 'large_values'])
def test_variants_need_results_alone(tmp_path, sweep):
  ran = programs.run('lab.figures', 'variants',
                     f'testdata/sweeps/{sweep}.csv',
                     f'--output={tmp_path}/x.png')
  assert ran.returncode == 0, ran.stderr
  assert '| *minus ' in ran.stdout and '| – |' not in ran.stdout
  assert (tmp_path / 'x.png').stat().st_size > 20_000


def test_table_of_agents_that_share_needs_results_alone(refused, tmp_path):
  csv = 'testdata/sweeps/laser_sharing.csv'
  ran = programs.run('lab.figures', 'best_agents', csv,
                     f'--output={tmp_path}/agents')
  assert ran.returncode == 0, ran.stderr
  assert '| lava_gap | shared | own | ' in ran.stdout
  assert [path.name for path in tmp_path.iterdir()] == ['agents.md']
  assert 'needs learning curves' in refused(
      analysis.main, 'best_agents', csv, f'--output={tmp_path}/agents.png')


@pytest.mark.parametrize('display, words', [
    ('table_2', 'no variant of this sweep is a correction'),
    ('figure_e2', 'no variant of this sweep is a correction'),
    ('profiles', 'no variant of this sweep is a correction'),
    ('lags', 'no variant of this sweep has a controlled lag'),
    ('rates', 'have no OptimizerConfig.learning_rate')])
def test_display_of_another_sweep_is_refused(
    refused, tmp_path, display, words):
  assert words in refused(
      analysis.main, display, 'testdata/sweeps/a3c_speedup/results.csv',
      f'--output={tmp_path}/x.png')
  assert not list(tmp_path.iterdir())


def test_directory_without_a_sweep_is_told_in_a_line(tmp_path):
  line = programs.error_line(
      programs.run('lab.figures', 'table_2', tmp_path))
  assert 'is' in line and 'the directory of a sweep?' in line
