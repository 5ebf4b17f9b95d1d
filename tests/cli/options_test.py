"""Tests of the knobs as text, and of the page that is made of it."""

import dataclasses
import pathlib

from impala_tf import config as config_lib
from launch import train
from launch.run import knobs

_ROOT = pathlib.Path(__file__).resolve().parents[3]


def _knob(name):
  return next(knob for section in knobs.sections() for knob in section.knobs
              if knob.name == name)


def test_page_of_all_knobs_is_that_of_the_code():
  page = (_ROOT / 'docs' / 'configuration.md').read_text()
  assert page == knobs.as_markdown(knobs.sections()), (
      'run: python -m launch.run.knobs > docs/configuration.md')


def test_every_knob_is_listed_with_a_meaning():
  listed = {knob.name: knob.meaning for section in knobs.sections()
            for knob in section.knobs}
  assert set(listed) == {
      f'{section.type.__name__}.{field.name}'
      for section in dataclasses.fields(config_lib.Config)
      for field in dataclasses.fields(section.type)}
  assert [name for name, meaning in listed.items() if len(meaning) < 4] == []


def test_units_ranges_and_sources_of_a_number_of_kinds():
  assert _knob('LearnerConfig.batch_size')[1:5] == (
      '32', 'int, at least 1', 'unrolls', 'tables 1, G.1')
  assert _knob('ActorConfig.env_timeout_secs')[1:5] == (
      '120.0', 'float, above 0', 'seconds', '')
  assert _knob('OptimizerConfig.max_gradient_norm').values == (
      'float, above 0, or None')
  assert _knob('LearnerConfig.xla').values == "'auto' or 'on' or 'off'"


def test_knobs_that_share_a_line_of_the_docstring_share_its_meaning():
  assert _knob('AtariConfig.width').meaning == 'size of an observation.'


def test_train_lists_knobs_and_starts_nothing(
    monkeypatch, capsys, tmp_path):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr('sys.argv', ['train.sh', '--list_knobs'])
  assert train.main() == 0
  output = capsys.readouterr().out
  assert 'LearnerConfig.batch_size = 32\n' in output
  assert max(map(len, output.splitlines())) <= 80
  assert not any(tmp_path.iterdir())
