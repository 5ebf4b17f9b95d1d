"""Tests of `impala_tf.cli.population` as a user runs it."""

import json
import pathlib
import re
import signal

import numpy as np
import pytest

from impala_tf.cli import population
from impala_tf.cli import sweep
from impala_tf.pbt import populations
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import sweep_directory
from impala_tf.sweeps import plan as plan_lib
from impala_tf.sweeps import results as results_lib
from tests.fixtures import programs
from tests.fixtures import sweep_files

_FILES = sorted(
    p.relative_to(programs.ROOT).as_posix()
    for p in (programs.ROOT / 'configs' / 'populations').rglob('*.gin'))
_TABLE_D1 = 'configs/populations/table_d1.gin'
_DEADLINE_SECS = 600.

# Updates of 160 frames, a decision after each hundred of them or so.
_UPDATES = 500
_CATCH = {
    'ExperimentConfig.in_process': True,
    'ExperimentConfig.total_frames': _UPDATES * 160,
    'AgentConfig.torso': 'mlp', 'AgentConfig.hidden_size': 8,
    'LearnerConfig.batch_size': 16, 'LearnerConfig.unroll_length': 10,
    'ActorConfig.num_actors': 1, 'ActorConfig.num_envs': 16,
    'PopulationConfig.decision_episodes': 1500,
    'PopulationConfig.burn_in_frames': 320,
    'PopulationConfig.random_score': -0.6,
    'PopulationConfig.human_score': 1.}
_POINTS = {
    'quick': {'OptimizerConfig.learning_rate': 0.02},
    'slow': {'OptimizerConfig.learning_rate': 1e-6},
    # A replay that no memory holds, which only the run itself can see.
    'broken': {'ReplayConfig.replay_fraction': 0.5,
               'ReplayConfig.capacity_unrolls': 10**12}}


def _write(tmp_path, **fields):
  return sweep_files.write(
      tmp_path / 'my.gin', **{'fixed': _CATCH, 'points': _POINTS, **fields})


def _arguments(tmp_path, *flags):
  return (tmp_path / 'my.gin', f'--population_dir={tmp_path / "p"}', *flags)


# Files of populations.


@pytest.mark.usefixtures('fake_deepmind_lab')
@pytest.mark.parametrize('path', [f for f in _FILES if f != _TABLE_D1])
def test_file_is_of_members_that_can_be(path):
  config = gin_config.load_sweep(path)
  tasks, members = sweep.load_runs(config, sweep_directory.POPULATION)
  population.Program().check(members)
  assert tasks.keys() == config.tasks.keys()
  header = (programs.ROOT / path).read_text().split('from __gin__')[0]
  for word in ('Frames', 'Hardware', 'Score to expect'):
    assert word in header


@pytest.mark.parametrize('name, adapted', [
    ('atari57', 'learning_rate,epsilon,entropy_cost,max_gradient_norm'),
    ('dmlab30', 'learning_rate,epsilon,entropy_cost')])
@pytest.mark.usefixtures('fake_deepmind_lab')
def test_papers_populations_have_its_numbers(name, adapted):
  config = gin_config.load_sweep(f'configs/populations/{name}.gin')
  members = plan_lib.members(config)
  assert len(members) == 24
  first = members[0]
  loaded = gin_config.load(config.tasks[first.task], first.gin_bindings())
  options = loaded.population
  assert (options.burn_in_frames, options.decision_episodes,
          options.copy_margin,
          options.mutation_probability, options.mutation_factor) == (
              20_000_000, 5_000, 0.05, 0.33, 1.2)
  assert options.adapted == adapted and not loaded.optimizer.annealed


# Bad input.


@pytest.mark.parametrize('fields, words', [
    ({'points': {'one': {}}}, 'a member for each setting'),
    ({'points': {'a': {}, 'a.failed': {}}}, "may end with '.failed' here"),
    ({'points': {'a': {'AgentConfig.hidden_size': 8}, 'b': {}},
      'fixed': {k: v for k, v in _CATCH.items() if 'hidden' not in k}},
     'members of catch/default/seed_1 differ in network'),
    ({'points': {'a': {'OptimizerConfig.bias_correction': True}, 'b': {}}},
     'members of catch/default/seed_1 differ in '),
    ({'points': {'a': {'PopulationConfig.copy_margin': 0.1}, 'b': {}}},
     'members of catch/default/seed_1 differ in '),
    ({'fixed': {k: v for k, v in _CATCH.items() if 'human' not in k}},
     'set PopulationConfig.random_score and human_score'),
    ({'fixed': {**_CATCH, 'PopulationConfig.adapted': 'decay'}},
     "names 'decay', but only learning_rate")])
def test_bad_population_is_refused_before_anything_begins(
    tmp_path, refused, fields, words):
  _write(tmp_path, **fields)
  assert words in refused(population.main, *_arguments(tmp_path))
  assert not (tmp_path / 'p').exists()


def test_damaged_rows_of_a_member_leave_the_choice_of_the_next(tmp_path):
  (tmp_path / 'metrics.jsonl').write_text('?\n')
  member = plan_lib.Member('catch', 'default', 'a', 1, {})
  turns = population.Turns({'a': member}, {'a': str(tmp_path)})
  assert turns.choose(['a']) == 'a'


def test_populations_train_one_after_the_other(tmp_path):
  members = {m.name: m for m in plan_lib.members(plan_lib.SweepConfig(
      tasks={'x': 'x.gin', 'y': 'y.gin'}, points={'a': {}, 'b': {}, 'c': {}}))}
  run_dirs = {name: str(tmp_path / name) for name in members}
  turns = population.Turns(members, run_dirs)
  xa, ya, xb, _, xc, _ = members
  waiting = list(members)

  def choose(expected):
    assert turns.choose(waiting) == expected
    waiting.remove(expected)

  def train(member, frames, evolution):
    turns.begin(member)
    pathlib.Path(run_dirs[member], 'population').mkdir(
        parents=True, exist_ok=True)
    with open(pathlib.Path(run_dirs[member], 'metrics.jsonl'), 'a') as file:
      file.write(json.dumps({'frames': frames}) + '\n')
    populations.publish(run_dirs[member], populations.Published(
        evolution, frames, 0.5, 'published', {}))
    return turns.should_yield(member, waiting)

  choose(xa)
  choose(xb)
  assert train(xa, 100, 1)
  waiting.append(xa)
  # The fewest frames of the first population; then all of it have places.
  for expected in xc, xa, ya:
    choose(expected)
  assert not train(xa, 200, 2)
  assert train(ya, 900, 1)


# Real members.


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_population_that_shares_a_replay_outlives_deaths_and_ctrl_c(
    tmp_path, fault):
  # A decision of both after each of these.
  total = 60_000 + 60_000 * fault.tries
  fixed = {**_CATCH, 'ReplayConfig.replay_fraction': 0.5,
           'ExperimentConfig.total_frames': total,
           'ExperimentConfig.checkpoint_interval_secs': 1.}
  points = {'quick': {'OptimizerConfig.learning_rate': 0.02},
            'slow': {'OptimizerConfig.learning_rate': 1e-6}}
  _write(tmp_path, fixed=fixed, points=points, shared_replay=True)
  command = ('impala_tf', 'population', *_arguments(tmp_path))
  with programs.running('-m', *command) as process:
    def wait_for_decisions():
      before = [len(_events(tmp_path, name)) for name in points]

      def holds():
        assert process.poll() is None, process.communicate()
        return all(len(_events(tmp_path, name)) > number
                   for name, number in zip(points, before))

      programs.wait_until(holds, 'decisions of both', _DEADLINE_SECS)

    wait_for_decisions()
    for _ in range(fault.tries):
      for words in (
          ('impala_tf', 'train', f"--run_dir={_run_dir(tmp_path, 'slow')}"),
          ('replay', f'--config={tmp_path}/p/tasks/catch.gin')):
        victim, = programs.pids(*words)
        programs.kill(victim)
        wait_for_decisions()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=_DEADLINE_SECS)
  assert process.returncode == 130, errors
  assert 'Stopped with 0 of 2 members finished; the same command' in output
  assert not programs.pids(str(tmp_path / 'p'))

  programs.run(*command, timeout=_DEADLINE_SECS, check=True)
  # Unlike in turns, both have trained all the time, on what both have played.
  for name in points:
    rows = metrics.read_rows(str(_run_dir(tmp_path, name)))
    assert rows[-1]['frames'] == total
    share = [row['replayed/foreign_share'] for row in rows]
    assert 0.3 < np.mean(share[-100:]) < 0.7
    events = _events(tmp_path, name)
    assert [e.evolution for e in events] == list(range(1, len(events) + 1))
  assert any(event.is_copy for event in _events(tmp_path, 'slow'))
  fault.report('kill -9 of a member, and of the replay, of a population that '
               'shares one', lost='')


def _run_dir(tmp_path, name):
  return tmp_path / 'p' / 'runs' / 'catch' / 'default' / 'seed_1' / name


def _events(tmp_path, name):
  return populations.read_events(str(_run_dir(tmp_path, name)))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_members_take_turns_and_one_that_failed_is_not_copied(tmp_path):
  _write(tmp_path)
  command = ('impala_tf', 'population', *_arguments(tmp_path, '--jobs=1'))
  ran = programs.run(*command, timeout=_DEADLINE_SECS)
  assert ran.returncode == 1, ran.stderr
  results = {r.run.setting: r for r in results_lib.from_csv(
      (tmp_path / 'p' / 'results.csv').read_text())}
  assert results['broken'].status == 'failed' and results['broken'].error
  for name in ('quick', 'slow'):
    assert results[name].status == 'finished'
    assert results[name].frames == _UPDATES * 160
    events = _events(tmp_path, name)
    assert [e.evolution for e in events] == list(range(1, len(events) + 1))
    assert len(events) >= 2
    # The one that has failed had not begun when the first were made.
    other = 'slow' if name == 'quick' else 'quick'
    assert {e.partner for e in events[1:]} == {other}
    # In turns: none was ahead of the other by more than a decision.
    assert all(abs(e.partner_evolution - e.evolution) <= 1 for e in events[1:])
    rows = metrics.read_rows(str(_run_dir(tmp_path, name)))
    assert [row['updates'] for row in rows] == list(range(1, _UPDATES + 1))

  lines = ran.stdout.splitlines()
  assert lines[0].startswith('3 of 3 members to do')
  assert any(re.match(r'\| \W*quick', line) for line in lines)
  best = json.loads((tmp_path / 'p' / 'best.json').read_text())[
      'catch/default/seed_1']
  assert best['member'] in ('quick', 'slow') and best['checkpoint'] == _UPDATES
  assert (tmp_path / 'p' / best['run_dir'] / 'config.gin').exists()

  ran = programs.run(*command, timeout=_DEADLINE_SECS)
  assert ran.returncode == 1 and '0 of 3 members to do' in ran.stdout
  # It fails for the same reason.
  ran = programs.run(*command, '--retry_failed', timeout=_DEADLINE_SECS)
  assert ran.returncode == 1 and '1 of 3 members to do' in ran.stdout
  assert ran.stdout.count(results['broken'].error) == 1
