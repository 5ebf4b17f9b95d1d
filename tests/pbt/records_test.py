"""Records read back as they were written, and nothing else is taken for one."""

import pytest

from impala_tf.pbt import records

_EVENT = records.Event(3, 400, 10, 0.1 + 0.2, 'b', None, None, None, None,
                       {'epsilon': 1e-7}, {'epsilon': 1.2e-7})


def test_record_reads_back_equal_to_the_last_bit():
  text = records.dumps(_EVENT)
  assert '\n' not in text
  assert records.loads(records.Event, text) == _EVENT


@pytest.mark.parametrize('text', ['{}', '[1]', 'x', records.dumps(
    records.Published(1, 2, 3., 'x', {}))])
def test_anything_else_is_no_event(text):
  with pytest.raises(ValueError):
    records.loads(records.Event, text)


def test_fitness_after_a_copy_is_the_partners():
  assert _EVENT.fitness == _EVENT.score and not _EVENT.is_copy
  copied = _EVENT._replace(checkpoint='x', partner_score=0.9)
  assert copied.fitness == 0.9 and copied.is_copy
