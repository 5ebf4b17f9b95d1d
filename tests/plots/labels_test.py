"""Tests that runs have short names which tell them apart."""

import pytest

from impala_tf.plots import runs


@pytest.mark.parametrize('run_dirs, names', [
    (['runs/pong'], ['pong']),
    (['runs/pong/'], ['pong']),
    (['runs/a', 'runs/b'], ['a', 'b']),
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
  assert runs.labels(run_dirs) == names
