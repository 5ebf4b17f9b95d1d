"""Tests of the options as text, and of the page with their tables."""

from impala_tf.cli import options
from impala_tf.cli import train
from tests.fixtures import programs


def test_tables_of_all_options_are_those_of_the_code():
  page = (programs.ROOT / 'docs' / 'configuration.md').read_text()
  assert page.endswith('\n\n' + options.as_markdown()), (
      'take them from: python -m impala_tf options --markdown')


def test_train_lists_options_and_starts_nothing(
    call, monkeypatch, capsys, tmp_path):
  monkeypatch.chdir(tmp_path)
  assert call(train.main, '--list_options') == 0
  output = capsys.readouterr().out
  assert 'LearnerConfig.batch_size = 32\n' in output
  assert max(map(len, output.splitlines())) <= 80
  assert not any(tmp_path.iterdir())
