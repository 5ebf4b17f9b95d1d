"""Flags of benchmarks that measure in turns."""

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from lab.bench import turns


def _args(*flags):
  parser = command_line.Parser()
  turns.add_flags(parser, rounds=3, secs=0.5)
  return parser.parse_args(flags)


@pytest.mark.parametrize('flag', ['--rounds=0', '--seconds=0', '--seconds=-1'])
def test_turns_that_measure_nothing_are_refused(flag):
  with pytest.raises(config_lib.UserError, match='must be above 0'):
    turns.check(_args(flag))
