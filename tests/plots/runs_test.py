"""Short names of runs, and their scores by suite and by agent."""

import pytest

from impala_tf.plots import runs as runs_lib
from impala_tf.suites import dmlab30

PONG, BREAKOUT = 'atari/pong', 'atari/breakout'


def _run(label, levels, results):
  return runs_lib.Run(label, levels, 'shallow', [], {
      level: {'mean': mean} for level, mean in results.items()})


def test_pattern_finds_what_may_be_a_run(tmp_path):
  (tmp_path / 'a').mkdir()
  for name in 'a.png', 'b.failed', 'c.jsonl':
    (tmp_path / name).touch()
  assert runs_lib.find([f'{tmp_path}/*', str(tmp_path / 'a')]) == [
      str(tmp_path / name) for name in ('a', 'c.jsonl')]


def test_runs_of_a_level_each_are_experts_together():
  experts = [_run('x', (PONG,), {PONG: 1.}),
             _run('y', (BREAKOUT,), {BREAKOUT: 2.}), _run('z', ('catch',), {})]
  assert runs_lib.scores_by_suite(experts) == {
      'atari57': {'experts': {BREAKOUT: 2., PONG: 1.}}}
  # The same level twice, or an agent of several, is no expert.
  for other in (_run('y', (PONG,), {PONG: 2.}),
                _run('y', (PONG, BREAKOUT), {BREAKOUT: 2.})):
    assert list(runs_lib.scores_by_suite(
        [experts[0], other])['atari57']) == ['x', 'y']
  experts[0].results[PONG]['interrupted'] = True
  found = runs_lib.scores_by_suite([experts[0]])
  assert list(found['atari57']) == ['x (interrupted)']


def test_level_has_the_score_of_its_test_variant_before_that_of_training():
  train, test = dmlab30.SUITE.train_levels[0], dmlab30.SUITE.levels[0]
  assert runs_lib.scores_by_suite([_run('x', (train,), {train: 1.})]) == {
      'dmlab30': {'x': {test: 1.}}}
  for results in ({train: 1., test: 2.}, {test: 2., train: 1.}):
    assert runs_lib.scores_by_suite([_run('x', (train,), results)]) == {
        'dmlab30': {'x': {test: 2.}}}


@pytest.mark.parametrize('run_dirs, names', [
    (['runs/pong/'], ['pong']),
    (['a/catch', 'b/catch'], ['a', 'b']),
    (['s/catch/vtrace/seed_1', 's/catch/none/seed_1'], ['vtrace', 'none']),
    (['s/catch/vtrace/seed_1', 's/tmaze/vtrace/seed_2'],
     ['catch/seed_1', 'tmaze/seed_2']),
    (['a/catch', 'b/c/catch'], ['a', 'b/c']),
    (['runs', 'runs/a'], ['runs', 'runs/a']),
    (['runs/a', 'runs/a/evaluation'], ['a', 'a, evaluated']),
    (['x/a/evaluation', 'y/a/evaluation'], ['x, evaluated', 'y, evaluated']),
    (['gs://bucket/a/run', 'gs://bucket/b/run'], ['a', 'b']),
    (['curves/pong.jsonl', 'curves/qbert.jsonl'], ['pong', 'qbert']),
    (['runs/pong/metrics.jsonl'], ['pong'])])
def test_names_are_the_parts_that_differ(run_dirs, names):
  assert runs_lib.labels(run_dirs) == names
