"""Values of the flag --checkpoint."""

import argparse

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import checkpoint_flag


@pytest.mark.parametrize('arguments, which', [
    ([], 'newest'), (['--checkpoint=newest'], 'newest'),
    (['--checkpoint=best'], 'best'), (['--checkpoint=1200'], 1200)])
def test_value_names_a_checkpoint(arguments, which):
  parser = argparse.ArgumentParser()
  checkpoint_flag.add(parser)
  assert checkpoint_flag.parse(
      parser.parse_args(arguments).checkpoint) == which


@pytest.mark.parametrize('text', ['', 'Best', '-1', '1.5', 'ckpt-7', '²'])
def test_other_values_are_refused(text):
  with pytest.raises(config_lib.UserError, match='must be newest, best or a'):
    checkpoint_flag.parse(text)
