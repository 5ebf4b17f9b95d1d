"""Programs end with a known exit code, and open a known network."""

import argparse
import errno
import shlex
import signal
import sys
from unittest import mock

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import cluster
from impala_tf.cli import program
from impala_tf.cli import role
from impala_tf.cli import train
from tests.fixtures import programs
from tests.fixtures.faults import runs


@pytest.mark.parametrize('main, arguments', [
    (train.main, ['configs/catch.gin']),
    (role.main, ['actor', '--address=localhost:1']),
    (cluster.main, ['configs/catch.gin'])])
def test_program_that_trains_ends_in_one_line_without_reverb(
    refused, monkeypatch, main, arguments):
  monkeypatch.setitem(sys.modules, 'reverb', None)
  line = refused(main, *arguments)
  assert 'training needs Reverb' in line and 'uv python install 3.11' in line


@pytest.mark.parametrize('text, which', [
    ('newest', 'newest'), ('best', 'best'), ('1200', 1200),
    *((text, None) for text in ('', 'Best', '-1', '1.5', 'ckpt-7', '²'))])
def test_value_names_a_checkpoint_or_is_refused(text, which):
  if which:
    assert program.parse_checkpoint(text) == which
  else:
    with pytest.raises(config_lib.UserError, match='must be newest, best or'):
      program.parse_checkpoint(text)


@pytest.mark.parametrize('error', [
    OSError('checkpoint 7 could not be written'),
    OSError(errno.ENOSPC, 'No space left on device', '/x')])
def test_full_disk_is_reported_in_a_line(error, capsys):
  assert program.run(mock.Mock(side_effect=error)) == 1
  assert capsys.readouterr().err == f'error: {error}\n'
  with pytest.raises(FileNotFoundError):  # Of the user's code.
    program.run(mock.Mock(side_effect=FileNotFoundError(2, 'missing', '/x')))


class _StartedAnew(Exception):
  pass


@pytest.mark.parametrize('network, run_dir, others, obstacle, expected', [
    ('auto', None, False, '', None),
    ('auto', None, False, 'no way', 'no private network here: no way'),
    ('auto', None, False, None, _StartedAnew),
    ('auto', None, True, '', 'as asked for'),
    ('private', None, True, '', None),
    ('private', None, False, 'no way', config_lib.UserError),
    ('private', None, False, None, _StartedAnew),
    ('open', None, False, '', 'as asked for'),
    ('auto', 'gs://b/run', False, '', 'gs://b/run is on another machine'),
    ('open', 'gs://b/run', False, '', 'as asked for'),
    ('private', 'gs://b/run', False, '', config_lib.UserError),
    ('auto', 'file:///b', False, '', None)])
def test_network_is_private_if_it_can_be_unless_others_shall_connect(
    monkeypatch, network, run_dir, others, obstacle, expected):

  def restart(module, verb):
    assert (module, verb) == ('impala_tf', 'train')
    raise _StartedAnew

  private_network = program.private_network
  monkeypatch.setattr(private_network, 'restart_within', restart)
  monkeypatch.setattr(
      private_network, 'is_settled', lambda: obstacle is not None)
  monkeypatch.setattr(private_network, 'obstacle', lambda: obstacle)
  args = argparse.Namespace(network=network, run_dir=run_dir, init_from=None,
                            replay_address=None)
  if isinstance(expected, type):
    with pytest.raises(expected):
      program.why_public('train', args, others)
  else:
    assert program.why_public('train', args, others) == expected


def _last_words(capsys, run_dir, signum):
  return program.conclude(str(run_dir), signum), capsys.readouterr().out.strip()


def test_last_line_gives_a_command_that_can_be_copied(tmp_path, capsys):
  run_dir = tmp_path / 'my run'
  flag = f"--run_dir='{run_dir}'"
  assert _last_words(capsys, run_dir, signal.SIGINT) == (
      130, 'Stopped before the first checkpoint; the same command with '
      f'{flag} begins anew')
  (run_dir / 'checkpoints').mkdir(parents=True)
  for name in ('ckpt-9.index', 'ckpt-1200.index', 'ckpt-1300.data-0-of-1'):
    (run_dir / 'checkpoints' / name).touch()
  assert _last_words(capsys, run_dir, signal.SIGTERM) == (
      143, 'Stopped with a checkpoint of update 1,200; the same command with '
      f'{flag} resumes')
  code, line = _last_words(capsys, run_dir, None)
  assert code == 0 and shlex.split(line.partition('with ')[2]) == [
      'impala-tf', 'evaluate', str(run_dir)]


_BUCKET_THAT_IS_SILENT = """
import threading
from impala_tf.storage import files
from impala_tf.cli import plot
from impala_tf.cli import program
from impala_tf.runs import run_directory
files.exists = lambda path: ':' in path and threading.Event().wait()
run_directory._REACH_SECS = 0.1
program.end(plot.main())
"""


@pytest.mark.slow
def test_program_ends_though_nobody_answers():
  assert 'no answer' in programs.error_line(programs.run_code(
      _BUCKET_THAT_IS_SILENT, 'file:///x', timeout=runs.DEADLINE_SECS))
