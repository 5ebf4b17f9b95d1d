"""Tables of a report, with numbers that can be checked by hand."""

from impala_tf.plots import runs as runs_lib
from impala_tf.plots import tables
from impala_tf.suites import atari57

_PONG = 'atari/pong'


def _run(levels=(_PONG,), rows=(), results=()):
  return runs_lib.Run('mine', levels, 'shallow', list(rows), dict(results))


def test_speed_is_of_the_whole_run():
  run = _run(rows=[{'frames': 10, 'updates': 1, 'secs': 9.},
                   {'frames': 7_200_000, 'updates': 9_000, 'secs': 3_600.}])
  assert ('| mine | atari/pong | 7,200,000 | 9,000 | 1.00 | 2,000 | – |'
          in tables.training([run]))
  assert '| **mine** on atari/pong | – | – | 2.0 |' in tables.throughput([run])


def test_whole_suite_is_named():
  assert '| mine | Atari-57 (57 levels) |' in tables.training([_run(
      atari57.SUITE.train_levels, [{'frames': 60, 'updates': 1, 'secs': 1.}])])


def test_level_without_a_score_of_humans_is_not_normalised():
  result = {'trained_frames': 1_000, 'episodes': 20, 'mean': -0.25,
            'deterministic': True, 'interrupted': True}
  assert ('| mine | catch (most probable actions) (interrupted) | 1,000 | 20 '
          '| -0.25 | – | – |') in (
              tables.evaluations([_run(('catch',), results={'catch': result})]))
