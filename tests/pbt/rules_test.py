"""Appendix F's rules, with the numbers that follow from its words."""

import itertools
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


def test_none_of_three_is_mutated_in_three_of_ten(logs):
  share = sum(not any(row) for row in logs) / _TRIES
  assert 0.67**3 == pytest.approx(0.300763)
  assert share == pytest.approx(0.300763, abs=0.01)


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


def test_values_given_stay_as_they_are():
  values = {'epsilon': 1.}
  for evolution in range(20):
    _explore(values, rules.generator(1, 1, evolution))
  assert values == {'epsilon': 1.}


def test_partners_are_drawn_evenly():
  others, rng = list('abd'), random.Random(1)
  drawn = [rules.draw_partner(others, rng) for _ in range(30_000)]
  for name in others:
    assert drawn.count(name) / 30_000 == pytest.approx(1 / 3, abs=0.015)


@pytest.mark.parametrize('own', [i / 100 for i in range(-20, 96)])
def test_lead_of_exactly_5_percent_copies_nothing(own):
  """The sums of decimal fractions are above or below, as they are rounded."""
  assert not _exploit(own, own + 0.05)
  assert not _exploit(own, round(own + 0.05, 2))
  assert _exploit(own, own + 0.0501)
  assert not _exploit(own + 0.0501, own)


@pytest.mark.parametrize('frames, episodes, ready', [
    (20_000_000, 5_000, True), (19_999_999, 5_000, False),
    (20_000_000, 4_999, False)])
def test_member_is_ready_after_burn_in_and_episodes(frames, episodes, ready):
  assert rules.is_ready(frames, episodes, 20_000_000, 5_000) == ready


def test_fitness_is_the_papers_sum():
  references = [rules.Reference(-10., 30.), rules.Reference(2., 1.),
                rules.Reference(0., 100.)]
  # Half way; beyond the human, who is below random play; below random play.
  assert rules.fitness([10., -5., -40.], references) == pytest.approx(
      (0.5 + 1. - 0.4) / 3)
  with pytest.raises(ValueError):
    rules.fitness([1.], references)


@pytest.mark.parametrize('episodes, probability', [
    (500, .0974), (1_000, .0351), (5_000, 3.0e-5)])
@pytest.mark.slow
def test_equal_members_copy_each_other_by_chance(episodes, probability):
  # Members of Catch that win half of their games: a lead of 5 % is one of 4 %
  # of the games. By how many one leads is binomial, of both members' games. The
  # normal approximation gives 0.103 for 500 episodes and 0.037 for 1,000.
  catch = [rules.Reference(-0.6, 1.)]

  def fitness(num_won):
    return rules.fitness([2 * num_won / episodes - 1], catch)

  half = episodes // 2
  lead = next(n for n in itertools.count()
              if _exploit(fitness(half), fitness(half + n)))
  ways = sum(math.comb(2 * episodes, k)
             for k in range(episodes + lead, 2 * episodes + 1))
  assert ways / 4**episodes == pytest.approx(probability, rel=0.01)


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
