"""Tests of the table of throughputs: its sums, its rows, and a small one."""

import json
import re

import pytest

from impala_tf.runs import gin_config
from impala_tf.runtime import sizing
from lab.bench import measure
from lab.bench import report
from lab.bench import table_1
from lab.bench import training
from tests.fixtures import programs

_ROWS = list(table_1.PAPER_TABLE_1)


@pytest.mark.parametrize('arguments, words', [
    (['--rounds=0'], '--rounds must be at least 1, but is 0'),
    (['--environments=0'], '--environments must be at least 1'),
    (['--together=1'], '--together must be at least 2'),
    (['--tasks=pong,pnog'], "between them, but has 'pnog'"),
    (['--rows=a3c,dqn'], "between them, but has 'dqn'"),
    (['--json=/proc/no/a.json'], '/proc/no/a.json cannot be written')])
def test_bad_input_is_refused_before_anything_starts(refused, arguments, words):
  assert words in refused(table_1.main, *arguments)


# Rows.


def _config(name, cores, steps_batches=False):
  """Returns the config of a row, with numbers for what is left open."""
  return sizing.fit(gin_config.load(table_1.CONFIG, [
      'LearnerConfig.batch_size = 32', *table_1.BINDINGS,
      *table_1.rows(32, cores, 20, steps_batches)[name].bindings]), cores)


@pytest.mark.parametrize('cores', [2, 3, 64])
@pytest.mark.parametrize('name', _ROWS)
def test_every_row_has_as_many_environments_and_the_same_network(name, cores):
  config = _config(name, cores)
  num_envs = config.actor.num_actors * config.actor.num_envs
  if name == 'a3c':  # A worker for each process at least.
    num_envs = max(config.asynchronous.num_workers, config.actor.num_actors)
  assert num_envs == 32
  assert config.actor.num_actors <= cores
  impala = _config('impala', cores)
  for section in 'agent', 'optimizer', 'environment':
    assert getattr(config, section) == getattr(impala, section)
  if name == 'a3c':
    assert config.asynchronous.max_segment_steps == (
        impala.learner.unroll_length)
  else:
    assert config.learner.unroll_length == impala.learner.unroll_length
    assert config.learner.batch_size == impala.learner.batch_size


def test_rows_are_those_of_the_paper():
  assert list(table_1.rows(32, 2, 20)) == _ROWS
  synchronisations = [_config(name, 2).actor.synchronisation
                      for name in _ROWS[1:]]
  assert synchronisations == [
      'step', 'trajectory', 'trajectory', 'none', 'none']
  env_processes = [_config(name, 2).actor.env_processes for name in _ROWS[1:]]
  assert env_processes == [32, None, 32, None, 32]
  # The emulator of Atari has threads where the learner plays.
  config = _config('a2c_sync_step', 2, steps_batches=True)
  assert config.actor.env_processes is None and config.actor.num_envs == 32


# Table 1, in thousands of frames a second, and its ratios by hand.
@pytest.mark.parametrize('name, speeds, ratios', [
    ('a3c', (6.5, 9), (0.38, 0.44)),
    ('a2c_dynamic_batch', (16, 13), (0.76, 0.54)),
    ('impala', (17, 20.5), (1, 1)),
    ('impala_dynamic_batch', (21, 24), (1, 1))])
def test_paper_is_compared_with_its_impala_of_as_many_gpus(
    name, speeds, ratios):
  for task, speed, ratio in zip(('pong', 'vizdoom_basic'), speeds, ratios):
    numbers = table_1.paper_numbers(name, table_1.TASKS[task])
    assert numbers['paper_frames_per_sec'] == 1000 * speed
    assert numbers['paper_ratio'] == pytest.approx(ratio, abs=0.005)


def test_each_row_is_measured_once_beside_impala():
  assert table_1.groups(['a', 'b', 'impala', 'c'], 3) == [
      ['a', 'b', 'impala'], ['c', 'impala']]
  assert table_1.groups(['impala'], 3) == [['impala']]


# Turns.


def test_one_run_is_awake_at_a_time_and_rounds_go_there_and_back(monkeypatch):
  awake, turns, closed = set(), [], []

  class Run:
    """Copies what `table_1` uses of `training.TrainingRun`."""
    peak_pss_mib = 5.

    def __init__(self, config_path, bindings):
      assert not awake
      self.name = config_path + ''.join(bindings)
      awake.add(self.name)

    def hold(self):
      awake.remove(self.name)

    def go_on(self):
      awake.add(self.name)

    def measure(self, secs):
      assert awake == {self.name}
      turns.append((self.name, secs))
      return len(turns)

    def close(self):
      closed.append(self.name)

  monkeypatch.setattr(table_1.training, 'TrainingRun', Run)
  measured = table_1.measure_in_turns(
      {'x': measure.Setting('X', 'a', ['1']), 'y': measure.Setting('Y', 'b')},
      rounds=2, secs=7.)
  # The first turn of each does not count.
  assert turns == [(name, 7.) for name in ('a1', 'b', 'a1', 'b', 'b', 'a1')]
  assert measured == {'x': table_1.Measured([3, 6], 5.),
                      'y': table_1.Measured([4, 5], 5.)}
  assert sorted(closed) == ['a1', 'b']


def _window(frames, secs, cpu_secs=1., lags=()):
  return training.Window(
      frames, secs, {'learner': 0.75 * cpu_secs, 'actors': 0.25 * cpu_secs},
      0., 0., [{'policy_lag': lag} for lag in lags] + [{}])


def test_speeds_are_compared_within_a_round_and_cpu_of_all_is_counted():
  # The host is twice as fast in the second round, and has a hiccup in the
  # third, in which IMPALA is hardly measured.
  windows = {
      'a2c_sync_step': [_window(400, 1.), _window(1600, 2., 2.),
                        _window(400, 1.)],
      'impala': [_window(1000, 1., 1., (1., 2.)), _window(2000, 1., 2., (3.,)),
                 _window(100, 1., 0.1)]}
  result = table_1.summarise({
      name: table_1.Measured(of_run, peak_pss_mib=1.)
      for name, of_run in windows.items()})
  step, impala = result['a2c_sync_step'], result['impala']
  assert step['frames_per_sec'] == pytest.approx(2400 / 4)
  assert (step['ratio_low'], step['ratio'], step['ratio_high']) == (
      pytest.approx((0.4, 0.4, 4.)))
  assert impala['ratio_low'] == impala['ratio'] == impala['ratio_high'] == 1
  assert step['cpu_secs_per_1000_frames'] == pytest.approx(1e3 * 4 / 2400)
  assert step['cores'] == pytest.approx(4 / 4)
  # The mean of rows that have a lag.
  assert impala['policy_lag_updates'] == pytest.approx(2.)
  assert step['policy_lag_updates'] is None


def test_table_shows_both(capsys):
  report.show_table_1('a task', {'a2c_sync_step': {
      'frames_per_sec': 600., 'ratio_low': 0.4, 'ratio': 0.4, 'ratio_high': 4.,
      'cpu_secs_per_1000_frames': 1.6667, 'cores': 1.,
      'policy_lag_updates': None, 'title': 'a2c_sync_step', 'mib': 1234.,
      **table_1.paper_numbers(
          'a2c_sync_step', table_1.TASKS['vizdoom_basic'])}})
  row, = (line for line in capsys.readouterr().out.splitlines()
          if line.strip().startswith('a2c'))
  assert re.split(r'\s{2,}', row.strip()) == [
      'a2c_sync_step', '600', '0.40', '0.40 to 4.00', '1.667', '1.00', '–',
      '1,234', '5,000 (48/0)', '0.24']


@pytest.mark.nightly
def test_rows_are_measured_side_by_side(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      'lab.bench.table_1', '--tasks=slow_restarts', '--environments=2',
      '--rows=a3c,a2c_sync_step,a2c_sync_trajectory', '--rounds=1',
      '--seconds=1', f'--json={path}', timeout=800, check=True)
  result = json.loads(path.read_text())
  assert result['environments'] == 2
  numbers = result['tasks']['slow_restarts']
  assert list(numbers) == ['a3c', 'a2c_sync_step', 'a2c_sync_trajectory',
                           'impala']
  assert all(row['frames_per_sec'] > 0 for row in numbers.values())
  assert numbers['a2c_sync_step']['policy_lag_updates'] == 0
  assert numbers['a2c_sync_trajectory']['policy_lag_updates'] == 0
  assert f'{numbers["impala"]["frames_per_sec"]:,.0f}' in ran.stdout
