"""Flags of benchmarks that measure in turns."""

import argparse

import pytest

from impala_tf import config as config_lib
from lab.bench import turns


def _args(*flags):
  parser = argparse.ArgumentParser()
  turns.add_flags(parser, rounds=3, secs=0.5)
  return parser.parse_args(flags)


def test_defaults_are_those_of_the_benchmark():
  args = _args()
  turns.check(args)
  assert (args.rounds, args.seconds, args.json) == (3, 0.5, None)


@pytest.mark.parametrize('flag', ['--rounds=0', '--seconds=0', '--seconds=-1'])
def test_turns_that_measure_nothing_are_refused(flag):
  with pytest.raises(config_lib.UserError, match='must be above 0'):
    turns.check(_args(flag))


def test_file_that_cannot_be_written_is_refused(tmp_path):
  turns.check(_args(f'--json={tmp_path}/result.json'))
  with pytest.raises(config_lib.UserError, match='cannot be written'):
    turns.check(_args(f'--json={tmp_path}/no/result.json'))
  assert not list(tmp_path.iterdir())
