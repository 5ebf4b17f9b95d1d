"""A run's history grows by entries, on a disk and behind a URL."""

import datetime
import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import history


@pytest.mark.parametrize('form', ['{}', 'ram:/{}'])
def test_entries_are_added_in_order_and_the_last_can_be_taken_back(
    tmp_path, form):
  run_dir = form.format(tmp_path)
  assert history.read(run_dir) == []
  history.add(run_dir, changed=['a', 'b'], checkpoint=None)
  history.add(run_dir, began_from='runs/ä')
  first, second = history.read(run_dir)
  assert first['changed'] == ['a', 'b'] and first['checkpoint'] is None
  assert second['began_from'] == 'runs/ä'
  now = datetime.datetime.now(datetime.timezone.utc)
  for entry in first, second:
    age = now - datetime.datetime.fromisoformat(entry['time'])
    assert datetime.timedelta(seconds=-1) < age < datetime.timedelta(minutes=5)
  history.remove_last(run_dir)
  assert history.read(run_dir) == [first]
  history.remove_last(run_dir)
  assert history.read(run_dir) == []


@pytest.mark.parametrize('program, shown', [
    ('impala-tf train', 'impala-tf train'), ("it's.py", "'it'\"'\"'s.py'")])
def test_command_of_a_start_can_be_given_again(
    tmp_path, monkeypatch, program, shown):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "it's.py").touch()
  monkeypatch.setattr(sys, 'argv', [program, 'my own.gin'])
  history.add_start(str(tmp_path))
  start, = history.read(str(tmp_path))
  assert start['command'] == f"{shown} 'my own.gin'"


@pytest.mark.parametrize('damaged', [b'{"time"', b'"\xff"'])
def test_damaged_line_is_named_and_nothing_is_lost(tmp_path, damaged):
  path = tmp_path / 'history.jsonl'
  path.write_bytes(b'{}\n' + damaged + b'\n')
  before = path.read_bytes()
  with pytest.raises(config_lib.UserError, match=(
      rf'{path} is damaged \(.+\); repair the line .+, or remove it')):
    history.add(str(tmp_path), changed=[])
  assert path.read_bytes() == before
