"""Refusals, files and deaths of the program `cli.sweep`."""

import re
import time

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import sweep
from impala_tf.runs import gin_config
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from tests.fixtures import programs
from tests.fixtures import sweep_files
from tests.fixtures import sweep_results
from tests.fixtures.faults import runs

_FILES = sorted(
    p.relative_to(programs.ROOT).as_posix()
    for p in (programs.ROOT / 'configs' / 'sweeps').rglob('*.gin'))
_TABLE_D1 = 'configs/sweeps/table_d1.gin'

# Updates of 40 frames.
_CATCH = {
    'ExperimentConfig.in_process': True,
    'LearnerConfig.batch_size': 8, 'LearnerConfig.unroll_length': 5,
    'ActorConfig.num_actors': 1, 'ActorConfig.num_envs': 4}


def _write(tmp_path, **fields):
  return sweep_files.write(
      tmp_path / 'my_sweep.gin', **{'fixed': _CATCH, **fields})


def _arguments(tmp_path, *flags):
  return (tmp_path / 'my_sweep.gin', f'--sweep_dir={tmp_path / "sweep"}',
          *flags)


def _sweep(tmp_path, *flags):
  return programs.run('impala_tf', 'sweep', *_arguments(tmp_path, *flags),
                      timeout=runs.DEADLINE_SECS)


def _results(tmp_path):
  """Returns results by run; none before there is a table."""
  path = tmp_path / 'sweep' / 'results.csv'
  if not path.exists():
    return {}
  return {r.run.name: r for r in results_lib.from_csv(path.read_text())}


# Files of sweeps.


@pytest.mark.usefixtures('fake_deepmind_lab')
@pytest.mark.parametrize('path', [f for f in _FILES if f != _TABLE_D1])
@pytest.mark.slow
def test_file_is_of_runs_that_can_be(path):
  config = gin_config.load_sweep(path)
  tasks, _ = sweep.load_runs(config)
  assert tasks.keys() == config.tasks.keys()
  assert gin_config.load_sweep(path) == config  # Nothing stayed from before.


def test_table_d1_is_the_papers(tmp_path):
  path = tmp_path / 'my_sweep.gin'
  path.write_text(f"{sweep_files.HEADER}include '{_TABLE_D1}'\n"
                  "sweeps.SweepConfig.tasks = {'catch': 'configs/catch.gin'}\n")
  config = gin_config.load_sweep(str(path))
  assert config.num_settings == 24
  assert config.ranges == {
      'ImpalaConfig.entropy_cost': ('log_uniform', 0.00005, 0.01),
      'OptimizerConfig.learning_rate': ('log_uniform', 0.000005, 0.005),
      'OptimizerConfig.epsilon':
          ('categorical', 0.1, 0.001, 0.00001, 0.0000001)}
  sweep.load_runs(config)


@pytest.mark.nightly
@pytest.mark.parametrize('name, regions', [
    ('lstm', ()), ('sharing', ('own_trust_region', 'shared_trust_region')),
    ('rho', ('region_0.1',))])
def test_variants_of_laser_have_the_trust_region_if_they_say_so(name, regions):
  """The others are V-trace: supplement, figure 1; main text, figure 3."""
  _, runs = sweep.load_runs(
      gin_config.load_sweep(f'configs/sweeps/laser_{name}.gin'))
  assert {run.variant for run, loaded in runs if loaded.laser.threshold} == (
      set(regions))


def test_what_is_written_reads_back_equal(tmp_path):
  config = plan_lib.SweepConfig(
      tasks={'a': 'a.gin'}, variants={'x': {'A.b': None}, 'y': {'A.b': "'"}},
      ranges={'A.c': ('categorical', 'p', 2, True, None, -1e-9),
              'A.d': ('log_uniform', 1, 2.5)},
      num_settings=3, num_seeds=2, seed=9)
  path = tmp_path / 'my.gin'
  path.write_text(gin_config.dumps_sweep(config))
  assert gin_config.load_sweep(str(path)) == config


# Bad input.


@pytest.mark.parametrize('fields, words', [
    ({'nope': 5}, 'SweepConfig has no nope; it has tasks, '),
    ({'tasks': {'a': 'configs/nope.gin'}}, 'no file configs/nope.gin'),
    ({'fixed': {'batch_size': 5}}, "like 'LearnerConfig.batch_size', but"),
    ({'variants': {'x': {}, 'y': {'LearnerConfig.xla': 5}}},
     'LearnerConfig.xla must be of type str, but is 5'),
    ({'ranges': {'ImpalaConfig.lambda_': ('log_uniform', 1.5, 2.5)}},
     'lambda_ must be at most 1, but is '),
    ({'ranges': {'LearnerConfig.queue_capacity': ('log_uniform', 10, 40)}},
     'queue_capacity must be of type int'),
    ({'fixed': {'ActorConfig.synchronisation': 'trajectory',
                'ActorConfig.num_actors': 2, 'ActorConfig.num_envs': 4}},
     'are no batch of '),
    # Only the first of the variants cannot be.
    ({'fixed': {'ExperimentConfig.algorithm': 'laser',
                'ImpalaConfig.clip_rho_threshold': None},
      'variants': {'x': {}, 'y': {'LaserConfig.trust_region': 'behaviour'}}},
     'needs clipped ratios'),
    ({'fixed': {'EnvironmentConfig.level': 'atari/pnog'}},
     "no level atari/pnog")])
def test_bad_sweep_is_refused_before_anything_begins(
    tmp_path, refused, fields, words):
  path = _write(tmp_path, **fields)
  line = refused(sweep.main, *_arguments(tmp_path))
  assert re.search(words, line), line
  assert list(tmp_path.iterdir()) == [path]


def test_training_file_is_no_sweep(tmp_path, refused):
  (tmp_path / 'my_sweep.gin').write_text(
      sweep_files.HEADER + "include 'configs/catch.gin'\n")
  line = refused(sweep.main, *_arguments(tmp_path))
  assert re.search('Config cannot be bound here, only SweepConfig', line)


@pytest.mark.parametrize('jobs, words', [
    (0, '--jobs must be at least 1, but is 0'),
    (2, '3 runs share a replay and run at the same time, but only 2')])
def test_bad_number_of_jobs_is_refused(tmp_path, refused, jobs, words):
  _write(tmp_path, shared_replay=True, points={'a': {}, 'b': {}, 'c': {}},
         fixed={'ReplayConfig.replay_fraction': 0.5})
  assert words in refused(sweep.main, *_arguments(tmp_path, f'--jobs={jobs}'))


def test_directory_of_another_sweep_or_something_else_is_refused(
    tmp_path, refused):
  _write(tmp_path)
  (tmp_path / 'sweep').mkdir()
  (tmp_path / 'sweep' / 'thesis.tex').touch()
  assert 'is not empty and holds no sweep; choose another --sweep_dir' in (
      refused(sweep.main, *_arguments(tmp_path)))
  (tmp_path / 'sweep' / 'thesis.tex').unlink()
  config = gin_config.load_sweep(str(tmp_path / 'my_sweep.gin'))
  task = config_lib.Config(environment=config_lib.EnvironmentConfig('catch'))
  with sweep_directory.claim(str(tmp_path / 'sweep'), config, {'catch': task}):
    pass
  _write(tmp_path, num_seeds=2)
  line = refused(sweep.main, *_arguments(tmp_path))
  assert 'SweepConfig.num_seeds (1, now 2)' in line
  # The task's file has changed since then.
  assert "catch: AgentConfig.torso ('shallow', now 'mlp')" in line


def test_line_of_a_run_has_its_end_and_when_all_will_end(capsys):
  progress = sweep.Progress(1, 3)
  run = plan_lib.Run('catch', 'x', 'setting_01', 1, {})
  progress.show(results_lib.Result(
      run, results_lib.FAILED, 'it broke', secs=7., final_return=0.5))
  line = capsys.readouterr().out
  assert line.startswith('[2/3] catch/x/setting_01/seed_1 failed · it broke · '
                         'return 0.50 · 7 s · ETA 0:00:00')


# Real runs.


def _contents(directory):
  return {path: path.stat().st_mtime_ns for path in directory.rglob('*')}


@pytest.mark.slow
def test_failed_run_is_recorded_and_all_others_finish(tmp_path):
  _write(tmp_path, num_settings=2, fixed={
      **_CATCH, 'ExperimentConfig.total_frames': 1600},
         ranges={'OptimizerConfig.learning_rate': ('log_uniform', 1e-4, 1e-2)},
         variants={'good': {},
                   'bad': {'EnvironmentConfig.level': 'gym/CartPoel-v1'}})
  ran = _sweep(tmp_path, '--jobs=2', '--network=open')
  assert ran.returncode == 1, ran.stderr
  assert not ran.stderr
  assert 'as asked for' in _log(tmp_path, 'catch/good/setting_01/seed_1')
  results = _results(tmp_path)
  assert len(results) == 4
  for result in results.values():
    if result.run.variant == 'bad':
      assert result.status == 'failed' and result.final_return is None
      assert 'gym/CartPoel-v1 cannot be made' in result.error
      continue
    assert result.status == 'finished' and not result.error
    assert result.frames == 1600 and result.secs > 0
    assert -1 <= result.final_return <= result.best_return <= 1
    run_dir = tmp_path / 'sweep' / 'runs' / result.run.name
    trained = gin_config.load(str(run_dir / 'config.gin'))
    assert trained.optimizer.learning_rate == (
        result.run.bindings['OptimizerConfig.learning_rate'])
    assert trained.environment.level == 'catch'

  lines = ran.stdout.splitlines()
  assert lines[0].startswith('4 of 4 runs to do') and '2 at a time' in lines[0]
  assert re.search(r'\[4/4\] catch/.* · ETA 0:00:00', ran.stdout)
  assert '| catch | bad | 0 | 2 | – | – | – |' in lines

  before = _contents(tmp_path / 'sweep' / 'runs')
  ran = _sweep(tmp_path)
  assert ran.returncode == 1 and '0 of 4 runs to do' in ran.stdout
  damaged = 'catch/bad/setting_01/seed_1'
  sweep_results.write_metrics(tmp_path / 'sweep' / 'runs' / damaged, [])
  (tmp_path / 'sweep' / 'runs' / damaged / 'metrics.jsonl').write_text('?\n')
  ran = _sweep(tmp_path, '--retry_failed')
  assert ran.returncode == 1 and '2 of 4 runs to do' in ran.stdout
  assert 'catch/bad/setting_02/seed_1 failed · ' in ran.stdout
  assert f'{damaged} failed, but not recorded: ' in ran.stdout
  after = _contents(tmp_path / 'sweep' / 'runs')
  assert {p: t for p, t in after.items() if 'good' in p.parts} == {
      p: t for p, t in before.items() if 'good' in p.parts}
  assert _results(tmp_path) == results


_SHORT, _LONG = 'catch/default/short/seed_1', 'catch/default/long/seed_1'


def _children(tmp_path):
  return [pid for name in (_SHORT, _LONG) for pid in programs.pids(
      f'--run_dir={tmp_path / "sweep" / "runs" / name}')]


def _log(tmp_path, name) -> str:
  path = tmp_path / 'sweep' / 'logs' / f'{name}.log'
  return path.read_text() if path.exists() else ''


@pytest.fixture(name='nothing_stays')
def _nothing_stays(tmp_path):
  """Kills what is left if a test fails; it would run for hours."""
  yield
  for pid in _children(tmp_path):
    programs.kill(pid)


@pytest.mark.slow
@pytest.mark.usefixtures('nothing_stays')
def test_interrupted_sweep_goes_on_and_leaves_finished_runs_alone(tmp_path):
  _write(tmp_path, points={
      'short': {'ExperimentConfig.total_frames': 400},
      'long': {'ExperimentConfig.total_frames': 100_000_000}})
  command = ('-m', 'impala_tf', 'sweep', *_arguments(tmp_path, '--jobs=2'))
  with programs.running(*command) as process:
    run = runs.Run(tmp_path / 'sweep' / 'runs' / _LONG, process)
    run.wait(lambda: _SHORT in _results(tmp_path), 'the short run')
    finished = _results(tmp_path)
    assert finished[_SHORT].status == 'finished' and _LONG not in finished
    run.wait(lambda: ' frames (' in _log(tmp_path, _LONG), 'the long run')
    programs.kill(process.pid)
    process.wait()
    programs.wait_until(lambda: not _children(tmp_path), 'the end of its runs')
  saved = run.newest_checkpoint()
  assert _results(tmp_path) == finished

  before = _contents(tmp_path / 'sweep' / 'runs' / _SHORT)
  with programs.running(*command) as process:
    run = runs.Run(run.run_dir, process)
    run.wait(lambda: f'/ckpt-{saved} at' in _log(tmp_path, _LONG),
             'its resumption')
    run.wait(lambda: _log(tmp_path, _LONG).rpartition('Resuming')[2]
             .count(' frames (') > 3, 'progress')
    start = time.monotonic()
    code, output = run.interrupt()
    assert time.monotonic() - start < 10
  assert code == 130
  assert not _children(tmp_path)
  assert output.startswith('1 of 2 runs to do')
  assert 'Stopped with 1 of 2 runs finished; the same command' in output
  assert _contents(tmp_path / 'sweep' / 'runs' / _SHORT) == before
  results = _results(tmp_path)
  assert results[_SHORT] == finished[_SHORT]
  assert results[_LONG].status == 'interrupted'
  assert results[_LONG].frames == 40 * run.newest_checkpoint() > 40 * saved
