"""Processes that measure something each time they are asked."""

import pytest

from lab.bench import worker
from tests.fixtures import programs

_MODULE = 'tests.fixtures.measurement'


def test_each_question_gets_its_answer():
  process = worker.Worker(_MODULE, ['3'])
  try:
    assert process.wait_until_ready() == {'factor': '3'}
    for secs in (0.5, 2.):
      process.ask(secs)
      assert process.answer() == {'product': 3 * secs}
  finally:
    process.close()
  assert not programs.pids(_MODULE, '3')


def test_steps_are_added_up_until_the_time_is_over():
  calls = []
  measured = worker.repeatedly(lambda: calls.append(1) or 3)(0.05)
  assert measured['steps'] == 3 * len(calls) > 3
  assert measured['cpu_secs'] > 0.


def test_worker_that_dies_is_named():
  process = worker.Worker(_MODULE, ['no_number'])
  with pytest.raises(RuntimeError, match=f'{_MODULE} no_number ended with exit '
                     'code 1'):
    process.wait_until_ready()
  process.close()
