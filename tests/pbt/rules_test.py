"""Appendix F's rules, with the numbers that follow from its words."""

import math
import random

import pytest

from impala_tf import config as config_lib
from impala_tf.pbt import rules

_NAMES = ('learning_rate', 'epsilon', 'entropy_cost')
_TRIES = 20_000
_DEFAULTS = config_lib.PopulationConfig()  # The paper's.


def _explore(values, rng):
  return rules.explore(values, rng, _DEFAULTS.mutation_probability,
                       _DEFAULTS.mutation_factor)


def _exploit(own, other):
  return rules.exploit(own, other, _DEFAULTS.copy_margin)


@pytest.fixture(name='logs', scope='module')
def _logs():
  """Draws ln factor of each hyper-parameter, [_TRIES][3]."""
  found = []
  for evolution in range(_TRIES):
    values = _explore(dict.fromkeys(_NAMES, 1.),
                      rules.generator(0, 0, evolution))
    found.append([math.log(values[name]) for name in _NAMES])
  return found


def test_factors_are_without_bias(logs):
  numbers = [x for row in logs for x in row]
  mean = sum(numbers) / len(numbers)
  # Four standard errors; with 0.8 in place of 1 / 1.2 a mutation has -0.0204.
  assert abs(mean) < 4 * 0.10474 / math.sqrt(len(numbers))
  assert {round(x, 12) for x in numbers} == {
      0., round(math.log(1.2), 12), round(-math.log(1.2), 12)}


@pytest.mark.parametrize('evolutions, tolerance', [(1, 0.01), (16, 0.04)])
def test_deviation_follows_and_grows_with_the_root_of_evolutions(
    logs, evolutions, tolerance):
  assert math.sqrt(0.33) * math.log(1.2) == pytest.approx(0.10474, abs=1e-5)
  sums = [sum(row[k] for row in logs[i:i + evolutions])
          for i in range(0, _TRIES, evolutions) for k in range(3)]
  deviation = math.sqrt(sum(x * x for x in sums) / len(sums))
  assert deviation == pytest.approx(
      0.10474 * math.sqrt(evolutions), rel=tolerance)


def test_draws_depend_on_seed_member_and_evolution_only():
  values = {'epsilon': 0.1, 'learning_rate': 1e-3, 'entropy_cost': 0.01}
  turned = dict(reversed(values.items()))

  def draw(given, *key):
    rng = rules.generator(*key)
    return rules.draw_partner(list('abcdefgh'), rng), _explore(given, rng)

  assert draw(values, 1, 2, 3) == draw(turned, 1, 2, 3)
  keys = [(s, m, e) for s in range(3) for m in range(3) for e in range(3)]
  assert len({str(draw(values, *key)) for key in keys}) > 20
  # On every machine and with every version of Python.
  assert rules.generator(1, 2, 3).random() == pytest.approx(
      0.12195786712615375, abs=1e-15)


def test_partners_are_drawn_evenly():
  others, rng = list('abd'), random.Random(1)
  drawn = [rules.draw_partner(others, rng) for _ in range(30_000)]
  for name in others:
    assert drawn.count(name) / 30_000 == pytest.approx(1 / 3, abs=0.015)


def test_lead_of_exactly_5_percent_copies_nothing():
  """The sums of decimal fractions are above or below, as they are rounded."""
  for own in (i / 100 for i in range(-20, 96)):
    assert not _exploit(own, own + 0.05)
    assert not _exploit(own, round(own + 0.05, 2))
    assert _exploit(own, own + 0.0501)
    assert not _exploit(own + 0.0501, own)


def test_fitness_is_the_papers_sum():
  references = [rules.Reference(-10., 30.), rules.Reference(2., 1.),
                rules.Reference(0., 100.)]
  # Half way; beyond the human, who is below random play; below random play.
  assert rules.fitness([10., -5., -40.], references) == pytest.approx(
      (0.5 + 1. - 0.4) / 3)
  with pytest.raises(ValueError):
    rules.fitness([1.], references)


# References.


def _find(level, **population):
  return rules.find_references(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level),
      population=config_lib.PopulationConfig(**population)))


def test_suites_have_their_references():
  """Tables C.1 and B.1 of the paper."""
  assert _find('atari/pong,atari/breakout') == [(-20.7, 14.6), (1.7, 30.5)]
  assert len(_find('atari57')) == 57 and len(_find('dmlab30')) == 30
  # Trained on in one variant and scored in another.
  assert _find('dmlab30/rooms_collect_good_objects_train') == _find(
      'dmlab30/rooms_collect_good_objects_test')


def test_any_other_level_has_the_configs_references():
  assert _find('catch', random_score=-0.6, human_score=1.) == [(-0.6, 1.)]


@pytest.mark.parametrize('level, population', [
    ('catch', {}), ('catch', {'random_score': 1.}),
    ('catch', {'random_score': 1., 'human_score': 1.}),
    ('catch,catch/mirrored', {'random_score': 0., 'human_score': 1.})])
def test_level_without_references_is_refused(level, population):
  with pytest.raises(config_lib.ConfigError, match='catch.* is of no suite'):
    _find(level, **population)
