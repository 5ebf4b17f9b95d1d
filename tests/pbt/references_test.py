"""Reference scores come from the suites, or from the config."""

import pytest

from impala_tf import config as config_lib
from impala_tf.pbt import references
from impala_tf.pbt import rules


def _find(level, **population):
  return references.find(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level),
      population=config_lib.PopulationConfig(**population)))


def test_suites_have_their_own():
  """Tables C.1 and B.1 of the paper."""
  assert _find('atari/pong,atari/breakout') == [(-20.7, 14.6), (1.7, 30.5)]
  assert len(_find('atari57')) == 57 and len(_find('dmlab30')) == 30
  # Trained on in one variant and scored in another.
  assert _find('dmlab30/rooms_collect_good_objects_train') == _find(
      'dmlab30/rooms_collect_good_objects_test')


def test_any_other_level_has_the_configs():
  assert _find('catch', random_score=-0.6, human_score=1.) == [
      rules.Reference(-0.6, 1.)]


@pytest.mark.parametrize('level, population', [
    ('catch', {}), ('catch', {'random_score': 1.}),
    ('catch', {'random_score': 1., 'human_score': 1.}),
    ('catch,catch/mirrored', {'random_score': 0., 'human_score': 1.})])
def test_level_without_them_is_refused(level, population):
  with pytest.raises(config_lib.ConfigError, match='catch.* is of no suite'):
    _find(level, **population)
