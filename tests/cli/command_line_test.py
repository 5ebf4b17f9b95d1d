"""Tests of command lines: refusals in one line, and both forms of a config."""

import pathlib

import pytest

from impala_tf.cli import cluster
from impala_tf.cli import command_line
from impala_tf.cli import evaluate
from impala_tf.cli import plot
from impala_tf.cli import role
from impala_tf.cli import sweep
from impala_tf.cli import train

# With what each cannot do without.
_PROGRAMS = [
    (train, ()), (evaluate, ('run',)), (plot, ('run',)),
    (role, ('learner', '--address=x:1')), (sweep, ('s.gin', '--sweep_dir=s'))]
# Programs that look for their config before they do anything else.
_OF_CONFIGS = [(train, ()), (cluster, ('--network=open',)),
               (role, ('learner', '--address=x:1'))]


def _name(value):
  return getattr(value, '__name__', '')


@pytest.mark.parametrize('program, needed', _PROGRAMS, ids=_name)
def test_program_refuses_an_unknown_flag_in_one_line(refused, program, needed):
  line = refused(program.main, *needed, '--nonsense')
  assert line == 'error: there is no flag --nonsense; --help lists all flags'


@pytest.mark.parametrize('program, flag', [
    (train, '--run_dir'), (train, '--gin_binding'), (train, '--config'),
    (role, '--output'), (evaluate, '--video'), (sweep, '--sweep_dir'),
    (plot, '--output')], ids=_name)
def test_empty_value_is_refused(refused, tmp_path, monkeypatch, program, flag):
  monkeypatch.chdir(tmp_path)
  line = refused(program.main, *dict(_PROGRAMS)[program], f'{flag}=')
  assert line == f'error: {flag} is empty; give it a value, or leave it out'
  assert not any(tmp_path.iterdir())


@pytest.mark.parametrize('value, encoding', [
    (b'gr\xf6\xdfe', 'utf-8'), ('größe'.encode(), 'latin-1')])
def test_path_that_tensorflow_would_write_otherwise_is_refused(
    refused, monkeypatch, value, encoding):
  monkeypatch.setattr(command_line.os, 'fsencode', lambda path: path.encode(
      encoding, 'surrogateescape'))
  line = refused(evaluate.main, value.decode(encoding, 'surrogateescape'))
  assert line.startswith('error: run_dir is not in UTF-8; rename the path')


def test_empty_argument_is_refused(refused):
  assert 'run_dir is empty; give it a value' in refused(evaluate.main, '')
  assert 'RUN_DIR is empty; give it a value' in refused(plot.main, 'run', '')


@pytest.mark.parametrize('program, needed', _OF_CONFIGS, ids=_name)
def test_config_is_an_argument_or_a_flag_but_not_both(refused, program, needed):
  for form in ('a.gin', '--config=a.gin'):
    assert 'there is no file a.gin' in refused(program.main, *needed, form)
  line = refused(program.main, *needed, '--config=b.gin', 'a.gin')
  assert '--config is given twice, as b.gin and as a.gin; leave one' in line
  line = refused(program.main, *needed, '--config=a.gin', '--config=b.gin')
  assert '--config is given twice' in line
  line = refused(program.main, *needed, 'a.gin', 'b.gin')
  assert "the argument 'b.gin' is one too many" in line


@pytest.mark.parametrize('arguments, words', [
    (['--run_dirs=x'], 'no flag --run_dirs; did you mean --run_dir? --help'),
    (['--network=closed'], "--network: invalid choice: 'closed'"),
    (['--port=x'], "--port: invalid int value: 'x'"),
    (['--run_dir'], '--run_dir: expected one argument')])
def test_command_line_that_cannot_be_read_is_refused_in_one_line(
    refused, arguments, words):
  assert words in refused(train.main, *arguments)


def test_flags_and_arguments_may_be_mixed():
  parser = command_line.Parser()
  parser.add_argument('paths', nargs='+')
  parser.add_argument('--flag')
  args = parser.parse_args(['a', '--flag=~/x', 'b'])
  assert args.paths == ['a', 'b'] and args.flag == f'{pathlib.Path.home()}/x'
