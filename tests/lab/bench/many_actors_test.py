"""Tests of the benchmark of many actors: as a user runs it, and its sums."""

import json

import psutil
import pytest

from lab.bench import crowd
from lab.bench import many_actors
from lab.bench import report
from tests.fixtures import programs

_MODULE = 'lab.bench.many_actors'


@pytest.mark.parametrize('arguments,words', [
    (['--actors=8,0'], '--actors must be numbers above 0'),
    (['--actors=some'], "but is 'some'"),
    (['--rounds=0'], '--rounds and --seconds must be above 0'),
    (['--config=nowhere.gin'], 'there is no file nowhere.gin'),
    (['--json=/nowhere/result.json'], '/nowhere/result.json cannot be written'),
])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(many_actors.main, *arguments)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_actors_are_measured_in_each_way(tmp_path):
  path = tmp_path / 'result.json'
  ran = programs.run(
      _MODULE, '--actors=2', '--rounds=1', '--seconds=1',
      '--config=configs/catch.gin', f'--json={path}', timeout=300)
  assert ran.returncode == 0, ran.stderr
  result, = json.loads(path.read_text())
  never, as_actors_do, each = (result['fetching'][name] for name in (
      many_actors.NEVER, many_actors.AS_ACTORS_DO, many_actors.EACH_UNROLL))
  for way in never, as_actors_do, each:
    assert way['updates_per_sec'] > 0
    assert way['frames_per_sec'] == pytest.approx(
        32 * 20 * way['updates_per_sec'])
  assert never['asked_per_sec'] < never['unrolls_per_sec'] / 32
  assert 'bytes_per_fetch' not in never
  # Actors ask once in 16 unrolls, by chance, or for each unroll.
  assert as_actors_do['asked_per_sec'] < as_actors_do['unrolls_per_sec'] / 4
  assert each['asked_per_sec'] == pytest.approx(
      each['unrolls_per_sec'], rel=0.2)
  # Floats of a network are hardly compressed, Catch's bytes are.
  assert each['bytes_per_fetch'] > 0.8 * result['parameter_bytes']
  assert 0 < result['sent_bytes_per_unroll'] < result['unroll_bytes']
  assert {'age_updates', 'learner_cpu_ms_per_fetch'} <= each.keys()
  assert 'bytes a fetch' in ran.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_actor_that_dies_ends_it_all_with_an_error(tmp_path):
  mine = f'--json={tmp_path / "result.json"}'
  with programs.running('-m', _MODULE, '--actors=2', '--seconds=1000',
                        '--config=configs/catch.gin', mine) as process:
    # Actors are forked, so they have the same command line.
    programs.wait_until(lambda: len(programs.pids(mine)) == 3, 'both actors')
    actors = sorted(set(programs.pids(mine)) - {process.pid})
    learner, = [child for child in psutil.Process(process.pid).children()
                if child.pid not in actors]
    programs.kill(actors[0])
    _, errors = process.communicate(timeout=programs.DEADLINE_SECS)
    assert process.returncode == 1
    assert 'thin actor 0 ended with status 9' in errors
    assert not programs.pids(mine)
    learner.wait(timeout=30)


def _look(updates, secs, row_time=0., cpu_secs=0., loopback=0, **counts):
  return many_actors.Look(
      {'updates': updates, 'frames': 10 * updates, 'secs': secs},
      row_time, secs, {**dict.fromkeys(crowd.COUNTS, 0.), **counts}, cpu_secs,
      loopback)


def _turn(start, end, memory=100.):
  return many_actors.Turn(
      start, end, [{'learner_wait_share': 0.1}], memory)


def _never():
  # 10 updates/s, 50 CPU-ms each; 20 unrolls of 1,000 bytes, 10 bytes answered.
  return _turn(_look(100, 0.), _look(120, 2., cpu_secs=1., unrolls=20.,
                                     sent_bytes=20_000., received_bytes=200.))


def _with_fetching():
  # 9 updates/s, 60 CPU-ms each; 2 fetches an update of 5,000 bytes each. They
  # came after 0.5 s on average, at update 204.5, with versions 203.5.
  return _turn(
      _look(200, 10., row_time=1_000.),
      _look(218, 12., row_time=1_002., cpu_secs=1.08, loopback=6_000_000,
            unrolls=18., received_bytes=180. + 36 * 5_000, fetched=36.,
            asked=40., versions=36 * 203.5, fetch_times=36 * 1_000.5,
            fetch_secs=0.72), memory=120.)


@pytest.fixture(name='result')
def _result():
  return many_actors.summarise(
      [(many_actors.NEVER, _never()),
       (many_actors.AS_ACTORS_DO, _with_fetching()),
       (many_actors.NEVER, _never())])


def test_turns_are_compared_with_their_neighbours(result):
  fetching = result['fetching'][many_actors.AS_ACTORS_DO]
  assert fetching['updates_per_sec'] == pytest.approx(9)
  assert fetching['slowdown'] == pytest.approx(0.1)
  # A host that gets faster all the time changes nothing.
  order = [many_actors.NEVER, many_actors.AS_ACTORS_DO] * 3 + [
      many_actors.NEVER]
  updates = {many_actors.NEVER: 100, many_actors.AS_ACTORS_DO: 90}
  drifting = many_actors.summarise([
      (way, _turn(_look(0, 0.), _look(updates[way] * (1 + i), 1., row_time=1.,
                                      unrolls=1.)))
      for i, way in enumerate(order)])
  fetching = drifting['fetching'][many_actors.AS_ACTORS_DO]
  assert fetching['slowdown'] == pytest.approx(0.1)
  assert fetching['slowdown_error'] == pytest.approx(0)


def test_bytes_of_unrolls_and_of_fetches_are_told_apart(result):
  assert result['sent_bytes_per_unroll'] == pytest.approx(1_000)
  assert result['received_bytes_per_unroll'] == pytest.approx(10)
  fetching = result['fetching'][many_actors.AS_ACTORS_DO]
  assert fetching['bytes_per_fetch'] == pytest.approx(5_000)
  assert fetching['loopback_mb_per_sec'] == pytest.approx(3)


def test_cost_of_a_fetch_is_what_an_update_costs_more(result):
  fetching = result['fetching'][many_actors.AS_ACTORS_DO]
  assert fetching['fetches_per_update'] == pytest.approx(2)
  assert fetching['learner_cpu_ms_per_update'] == pytest.approx(60)
  assert fetching['learner_cpu_ms_per_fetch'] == pytest.approx(5)
  assert fetching['fetch_ms'] == pytest.approx(20)
  assert fetching['learner_mib'] == 120


def test_age_is_of_the_moment_of_arrival(result):
  fetching = result['fetching'][many_actors.AS_ACTORS_DO]
  assert fetching['age_updates'] == pytest.approx(1)


def test_table_shows_the_numbers(result, capsys):
  report.show_many_actors([{
      'num_actors': 7, 'num_envs': 16, 'learner_cores': 2, 'actor_cores': 2,
      'parameter_bytes': 4_000, 'unroll_bytes': 9_876,
      'unrolls_per_batch': 32, **result}])
  shown = capsys.readouterr().out
  for words in ('7: never', '10.000', '10.0%', '5,000', '1,000 sent', '9,876'):
    assert words in shown
