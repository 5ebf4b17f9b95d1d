"""New runs begin with parameters of others, once, or are refused."""

import pytest

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.cli import warm_start
from impala_tf.roles import beginning
from impala_tf.runs import history
from impala_tf.runs import metrics
from impala_tf.runtime import user_modules
from impala_tf.storage import checkpoint
from tests.fixtures import programs
from tests.fixtures import trained_runs


@pytest.mark.parametrize('source, directory, which', [
    ('runs/a', 'runs/a', 'newest'), ('runs/a:best', 'runs/a', 'best'),
    ('runs/a:1200', 'runs/a', 1200), ('gs://b/run', 'gs://b/run', 'newest'),
    ('gs://b/run:best', 'gs://b/run', 'best'), ('a:b', 'a:b', 'newest')])
def test_value_names_directory_and_checkpoint(source, directory, which):
  assert warm_start.parse(source) == (directory, which)


def test_run_that_has_begun_is_left_alone(tmp_path, capsys):
  (tmp_path / 'checkpoints').mkdir()
  (tmp_path / 'checkpoints' / 'ckpt-5.index').touch()
  beginning.warm_start(str(tmp_path), None, resuming=True)
  assert not capsys.readouterr().out
  beginning.warm_start(str(tmp_path), '/no/such/run', resuming=True)
  assert 'ignored: the run has begun already' in capsys.readouterr().out
  assert not history.read(str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures('modules_forgotten')
def test_agent_with_a_torso_of_ones_own_begins_another(tmp_path, capsys):
  user_modules.load([str(trained_runs.OWN_TORSO_PATH)])
  agent = config_lib.AgentConfig(torso='own_torso', hidden_size=4)
  source, run_dir = tmp_path / 'source', tmp_path / 'run'
  for path in source, run_dir:
    path.mkdir()
  trained_runs.make(source, 'catch', agent=agent)
  (run_dir / 'config.gin').write_text((source / 'config.gin').read_text())
  capsys.readouterr()
  # It was killed before it had begun.
  beginning.warm_start(str(run_dir), str(source), resuming=True)
  # Lines that the file prints as it is imported are left out.
  line = f'parameters of ckpt-7 in {source} (4,321 frames)'
  assert capsys.readouterr().out == f'  {line}\n'
  entry, = history.read(str(run_dir))
  assert entry['began_from'] == str(source) and entry['parameters'] == [line]
  assert saved.load_agent(str(run_dir)).num_frames == 0
  for other, words in ((f'{source}:8', '--init_from: .* 8;'), (
      'nosuch://bucket/run:best', 'nosuch://bucket/run cannot be reached: ')):
    with pytest.raises(config_lib.UserError, match=words):
      beginning.warm_start(str(run_dir), other, resuming=False)


def _train(run_dir, *arguments, **options):
  return programs.run(
      'impala_tf', 'train', *arguments, f'--run_dir={run_dir}', timeout=300,
      **options)


@pytest.mark.slow
def test_run_is_resumed_with_changes_and_another_begins_from_it(tmp_path):
  first, second = tmp_path / 'first', tmp_path / 'second'
  frames = '--gin_binding=ExperimentConfig.total_frames ='
  ran = _train(first, *programs.CATCH, f'{frames} 4000', check=True)
  best = checkpoint.find_best(str(first))
  rate = '--gin_binding=OptimizerConfig.learning_rate = 1e-4'
  line = programs.error_line(_train(first, f'{frames} 8000', rate))
  assert 'total_frames (4000, now 8000), OptimizerConfig.learn' in line
  ran = _train(first, f'{frames} 8000', rate, '--allow_changes', check=True)
  assert 'OptimizerConfig.learning_rate (0.004, now 0.0001)' in ran.stdout
  rows = metrics.read_rows(str(first))
  assert rows[-1]['frames'] == 8000
  later = [row for row in rows if row['frames'] > 4000]
  assert max(row['learning_rate'] for row in later) <= 1e-4 / 2
  assert rows[0]['learning_rate'] > 1e-4 / 2
  assert checkpoint.find_best(str(first)).score >= best.score

  ran = _train(second, *programs.CATCH, f'{frames} 400',
               f'--init_from={first}:best', check=True)
  assert f'parameters of best-{checkpoint.find_best(str(first)).number} in' in (
      ran.stdout)
  log = (second / 'logs' / 'learner.log').read_text()
  assert f'Resuming from {second}/checkpoints/ckpt-0 at 0 frames' in log
  assert metrics.read_rows(str(second))[-1]['frames'] == 400
