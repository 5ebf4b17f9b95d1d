"""Tests of the options as text, and of the page that is made of it."""

from impala_tf import config as config_lib
from impala_tf.cli import options
from impala_tf.cli import train
from tests.fixtures import programs


def _option(section, name):
  _, found = options.describe(section)
  return next(option for option in found if option.name == name)


def test_page_of_all_options_is_that_of_the_code():
  page = (programs.ROOT / 'docs' / 'configuration.md').read_text()
  assert page == options.as_markdown(), (
      'run: python -m impala_tf options --markdown > docs/configuration.md')


def test_units_ranges_and_sources_of_a_number_of_kinds():
  assert _option(config_lib.LearnerConfig, 'batch_size')[1:5] == (
      '32', 'int, at least 1', 'unrolls', 'tables 1, G.1')
  assert _option(config_lib.ActorConfig, 'env_timeout_secs')[1:5] == (
      '120.0', 'float, above 0', 'seconds', '')
  assert _option(config_lib.OptimizerConfig, 'max_gradient_norm').values == (
      'float, above 0, or None')
  assert _option(config_lib.LearnerConfig, 'xla').values == (
      "'auto' or 'on' or 'off'")
  # Two share a line of the docstring.
  assert _option(config_lib.AtariConfig, 'width').meaning == (
      'size of an observation.')


def test_train_lists_options_and_starts_nothing(
    call, monkeypatch, capsys, tmp_path):
  monkeypatch.chdir(tmp_path)
  assert call(train.main, '--list_options') == 0
  output = capsys.readouterr().out
  assert 'LearnerConfig.batch_size = 32\n' in output
  assert max(map(len, output.splitlines())) <= 80
  assert not any(tmp_path.iterdir())
