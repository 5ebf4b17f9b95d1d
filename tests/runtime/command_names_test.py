"""Messages name commands as the user would type them."""

import shlex

import pytest

from impala_tf.runtime import command_names


@pytest.mark.parametrize('scripts, words', [
    (None, ['impala-tf', 'train']), ('./launch', ['./launch/train.sh']),
    ('/a dir/launch', ['/a dir/launch/train.sh'])])
def test_command_can_be_copied_into_a_shell(monkeypatch, scripts, words):
  monkeypatch.delenv('IMPALA_TF_SCRIPTS', raising=False)
  if scripts:
    monkeypatch.setenv('IMPALA_TF_SCRIPTS', scripts)
  assert shlex.split(command_names.command('train')) == words
