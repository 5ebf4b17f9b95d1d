"""Files of a member: half of one is never read, and unwanted ones go."""

import pytest

from impala_tf import config
from impala_tf.pbt import populations

_EVENT = populations.Event(1, 40, 1, 0.5, 'b', 0.6, 1, 80, 'copied-1',
                           {'epsilon': 0.1}, {'epsilon': 0.12})
_PUBLISHED = populations.Published(1, 40, 0.6, 'published-1', {'epsilon': 0.12})


@pytest.fixture(name='run_dir')
def _run_dir(tmp_path):
  run_dir = tmp_path / 'a'
  (run_dir / 'population').mkdir(parents=True)
  return str(run_dir)


def test_member_knows_itself_and_the_others(run_dir, tmp_path):
  assert populations.name_of(f'{run_dir}/') == 'a'
  assert populations.sibling(f'{run_dir}/', 'b') == str(tmp_path / 'b')


def test_half_an_event_is_left_out_and_written_over(run_dir):
  populations.append_event(run_dir, _EVENT)
  with open(populations.path(run_dir, 'events.jsonl'), 'a') as file:
    file.write('{"evolution": 2, "fra')
  assert populations.read_events(run_dir) == [_EVENT]
  second = _EVENT._replace(evolution=2)
  populations.append_event(run_dir, second)
  assert populations.read_events(run_dir) == [_EVENT, second]
  with open(populations.path(run_dir, 'events.jsonl'), 'a') as file:
    file.write('{"evolution": 3}\n')
  with pytest.raises(config.UserError, match=(
      'events.jsonl is damaged .no Event: .* repair the line .*n": 3')):
    populations.read_events(run_dir)


def test_nothing_is_published_where_nothing_whole_is_there(run_dir):
  assert populations.read_published(run_dir) is None
  populations.publish(run_dir, _PUBLISHED)
  assert populations.read_published(run_dir) == _PUBLISHED
  with open(populations.path(run_dir, 'published.json'), 'w') as file:
    file.write('{"evol')  # The machine has crashed.
  assert populations.read_published(run_dir) is None


def test_parameters_are_copied_whole_and_removed_unless_wanted(run_dir):
  for name in ('published-1', 'published-12'):
    for ending in ('index', 'data-00000-of-00001'):
      with open(populations.path(run_dir, f'{name}.{ending}'), 'w') as file:
        file.write(f'{name} {ending}')
  populations.copy_parameters(populations.path(run_dir, 'published-1'),
                              populations.path(run_dir, 'copied-3'))
  with open(populations.path(run_dir, 'copied-3.index')) as file:
    assert file.read() == 'published-1 index'
  populations.publish(run_dir, _PUBLISHED)
  populations.remove_parameters(run_dir, {'copied-3'})
  assert populations.files.names(populations.path(run_dir)) == [
      'copied-3.data-00000-of-00001', 'copied-3.index', 'published.json']
  with pytest.raises(FileNotFoundError):
    populations.copy_parameters(populations.path(run_dir, 'published-1'),
                                populations.path(run_dir, 'copied-4'))


def test_member_that_failed_may_be_tried_again(run_dir, tmp_path):
  assert not populations.has_failed(run_dir)
  populations.set_failed(f'{run_dir}/', True)
  populations.set_failed(str(tmp_path / 'new' / 'never_begun'), True)
  assert populations.has_failed(run_dir)
  assert not (tmp_path / 'new' / 'never_begun').exists()
  populations.set_failed(run_dir, False)
  populations.set_failed(run_dir, False)
  assert not populations.has_failed(run_dir)


# Its partner had published nothing.
_UNCOMPARED = populations.Event(
    3, 400, 10, 0.1 + 0.2, 'b', None, None, None, None, {'epsilon': 1e-7},
    {'epsilon': 1.2e-7})


def test_record_reads_back_equal_to_the_last_bit():
  text = populations.dumps(_UNCOMPARED)
  assert '\n' not in text
  assert populations.loads(populations.Event, text) == _UNCOMPARED


@pytest.mark.parametrize('text', ['{}', '[1]', 'x', populations.dumps(
    populations.Published(1, 2, 3., 'x', {}))])
def test_anything_else_is_no_event(text):
  with pytest.raises(ValueError):
    populations.loads(populations.Event, text)


def test_fitness_after_a_copy_is_the_partners():
  assert _UNCOMPARED.fitness == _UNCOMPARED.score and not _UNCOMPARED.is_copy
  copied = _UNCOMPARED._replace(checkpoint='x', partner_score=0.9)
  assert copied.fitness == 0.9 and copied.is_copy
