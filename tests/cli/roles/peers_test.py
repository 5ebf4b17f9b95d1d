"""Messages of the actor as a program."""

import pytest

from impala_tf.cli.roles import flags
from impala_tf.cli.roles import peers
from impala_tf.runs import gin_config


@pytest.mark.parametrize('path, words', [
    ('configs/a3c/catch.gin', 'learned from its first segment'),
    ('configs/catch.gin', 'sent its first unrolls')])
def test_actor_says_once_that_it_plays(path, words, capsys):
  control = peers.LearnerConnection(flags.make_parser('').parse_args(
      ['actor', '--address=localhost:1'])).control(gin_config.load(path))
  capsys.readouterr()
  for _ in range(2):
    control.on_unroll({})
  assert capsys.readouterr().out == f'actor 0: {words}\n'
