"""The table of torsos: names that are there, taken or unknown."""

import pytest

import impala_tf
from impala_tf import config as config_lib
from impala_tf.agents import torsos

pytestmark = pytest.mark.usefixtures('modules_forgotten')


def test_torso_is_known_once_it_is_registered():
  with pytest.raises(config_lib.ConfigError, match=(
      "torso must be one of shallow, nature, .* but is 'my_torso'")):
    torsos.check('my_torso')

  @impala_tf.register_torso('my_torso')
  class MyTorso:
    pass

  torsos.check('my_torso')
  assert torsos.OWN == {'my_torso': MyTorso}
  with pytest.raises(config_lib.ConfigError, match="did you mean 'my_torso'"):
    torsos.check('my_torsi')


def test_name_that_is_taken_is_refused():
  torsos.register('my_torso')(object)
  for name in ('mlp', 'my_torso'):
    with pytest.raises(config_lib.ConfigError, match=f"'{name}' already"):
      torsos.register(name)


@pytest.mark.parametrize('name, shape, chosen', [
    ('auto', (84, 84, 4), 'shallow'), ('auto', (36, 36, 1), 'shallow'),
    ('auto', (35, 84, 3), 'grid'), ('auto', (10, 5), 'mlp'),
    ('auto', (), 'mlp'), ('shallow', (20, 20, 3), 'shallow'),
    ('deep', (5, 5, 3), 'deep'), ('mlp', (84, 84, 3), 'mlp'),
    ('my_torso', (3, 5, 7, 9), 'my_torso')])
def test_torso_fits_the_observations(name, shape, chosen):
  assert torsos.fitting(name, shape) == chosen


@pytest.mark.parametrize('name, shape, words', [
    ('shallow', (12, 12, 3), r'at least 20 x 20 pixels, .* are \[12, 12, 3\]'),
    ('nature', (35, 84, 3), 'at least 36 x 36 pixels'),
    ('shallow', (3, 64, 64), "channels last, .*'mlp' or 'grid', or 'auto'"),
    ('deep', (84, 84), r'images \[H, W, C\], but .* are \[84, 84\]'),
    ('grid', (5,), "'grid' needs images .*'mlp', or 'auto', which chooses")])
def test_torso_that_does_not_fit_is_refused_with_a_remedy(name, shape, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    torsos.fitting(name, shape)
