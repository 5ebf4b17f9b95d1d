"""Tests of the checker of prose."""

import pytest

from lab import prose


def _findings(tmp_path, text, name='page.md'):
  path = tmp_path / name
  path.write_text(text)
  return [finding.removeprefix(f'{path}:')
          for finding in prose.findings(str(path))]


@pytest.mark.parametrize('text', [
    'A thread of its own.', 'It tells you.', 'It does: what is left.',
    'Plays those that end.', 'Where it ends.', 'The end, only where set.',
    'Ends where there is none.', "It is nobody's.", 'A knob.'])
def test_phrase_is_found(tmp_path, text):
  assert len(_findings(tmp_path, text)) == 1


def test_sentence_is_long_above_25_words(tmp_path):
  words = ' '.join(['word'] * 25)
  assert _findings(tmp_path, f'{words}. {words}; {words}.\n\n- {words} a') == [
      '3: 26 words, above 25: ' + 'word ' * 12 + '…']


def test_code_and_tables_are_skipped_in_pages(tmp_path):
  told = 'Told.'.lower()
  assert _findings(tmp_path, f'`{told}`\n```\n{told}\n```\n\n    {told}\n\n'
                   f'| {told} |\n# {told}\n\nIs {told}.') == [
                       '11: "told": write \'report\', \'identify\' or \'know\'']


def test_docstrings_and_comments_are_read(tmp_path):
  source = 'def f(x):\n  """A.\n\n  Args:\n    x: told.\n  """\n  x = "told"\n'
  assert len(_findings(tmp_path, f'{source}\n# told\n', 'm.py')) == 2
  assert len(_findings(tmp_path, 'told = 1\n# told', 'c.gin')) == 1


def test_missing_path_is_no_success():
  with pytest.raises(FileNotFoundError):
    prose.main(['nowhere'])
