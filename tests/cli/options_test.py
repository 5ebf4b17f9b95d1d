"""Tests of the options as text, and of the page with their tables."""

from impala_tf.cli import options
from tests.fixtures import programs


def test_tables_of_all_options_are_those_of_the_code():
  page = (programs.ROOT / 'docs' / 'configuration.md').read_text()
  assert page.endswith('\n\n' + options.as_markdown()), (
      'take them from: python -m impala_tf options --markdown')


def test_options_are_listed_within_80_columns(call, capsys):
  assert call(options.main) == 0
  output = capsys.readouterr().out
  assert 'LearnerConfig.batch_size = 32\n' in output
  assert max(map(len, output.splitlines())) <= 80
