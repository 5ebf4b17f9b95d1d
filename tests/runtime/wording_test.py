"""Messages count things in words, and name commands as the user types them."""

import shlex

import pytest

from impala_tf.runtime import wording


def test_one_is_no_plural():
  assert wording.counted(1, 'learner thread') == '1 learner thread'
  assert wording.counted(0, 'game') == '0 games'
  assert wording.counted(2, 'actor process') == '2 actor processes'


@pytest.mark.parametrize('scripts, words', [
    (None, ['impala-tf', 'train']), ('./launch', ['./launch/train.sh']),
    ('/a dir/launch', ['/a dir/launch/train.sh'])])
def test_command_can_be_copied_into_a_shell(monkeypatch, scripts, words):
  monkeypatch.delenv('IMPALA_TF_SCRIPTS', raising=False)
  if scripts:
    monkeypatch.setenv('IMPALA_TF_SCRIPTS', scripts)
  assert shlex.split(wording.command('train')) == words
