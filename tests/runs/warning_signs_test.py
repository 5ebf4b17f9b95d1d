"""Warnings come once, for what lasts, and not for runs that learn."""

import pytest

from impala_tf import config as config_lib
from impala_tf.runs import warning_signs

_TOTAL_FRAMES = 1_000


def _signs(**impala):
  return warning_signs.WarningSigns(config_lib.Config(
      experiment=config_lib.ExperimentConfig(total_frames=_TOTAL_FRAMES),
      impala=config_lib.ImpalaConfig(**impala)))


def _warnings(signs, rows):
  """Lists (frames, warning) of rows 10 frames apart."""
  return [(10 * i, text) for i, row in enumerate(rows)
          for text in signs.notice(
              {'frames': 10 * i, 'updates': 500, **row})]


@pytest.mark.parametrize('share, words', [
    (0.995, 'chosen as if at random for a tenth of the run (entropy 1.4): if '
     'rewards are small'),
    (0.001, 'hardly tried anything new for a tenth of the run')])
def test_entropy_is_warned_of_once_after_a_tenth_of_the_run(share, words):
  rows = [{'entropy': 1.38, 'entropy_share': share}] * 50
  (frames, text), = _warnings(_signs(), rows)
  assert frames == _TOTAL_FRAMES / 10 and words in text


def test_entropy_of_the_first_updates_or_that_moves_is_no_sign():
  first = [{'entropy': 1.38, 'entropy_share': 1., 'updates': 499}] * 50
  moving = [{'entropy': 1., 'entropy_share': share}
            for share in [1., *[.5] * 9, 1., .001, *[.1] * 8] * 5]
  for rows in first, moving:
    assert not _warnings(_signs(), rows)


@pytest.mark.parametrize('clipping, limit', [
    # 3 times 1 / (1 - 0.9), and 5 times as much.
    ('abs_one', 30.), ('soft_asymmetric', 150.),
    # 10 times the largest return, in episodes as long as the horizon.
    ('none', 40.)])
def test_values_beyond_any_return_are_warned_of_once(clipping, limit):
  row = {'episode_return': -4., 'episode_steps': 10.}
  signs = _signs(discount=.9, reward_clipping=clipping)
  assert not _warnings(signs, [{**row, 'value_size': .99 * limit}] * 3)
  (_, text), = _warnings(signs, [{**row, 'value_size': 1.01 * limit}] * 3)
  assert 'values diverge' in text and '`terminated`' in text


_OF_TWO_STEPS = {'episode_return': 2., 'episode_steps': 2.}


@pytest.mark.parametrize('rows', [
    # A reward of 1 for each of 2 steps, and 10 if the limit did not exist.
    [{**_OF_TWO_STEPS, 'value_size': 60.}],
    # Returns near 0 at first are no measure.
    [{'episode_return': 0.001, 'episode_steps': 90., 'value_size': size}
     for size in (0.5, 29.)],
    # A learner that was restarted may have no episodes yet.
    *([before, {'value_size': 1e9}]
      for before in ({}, {**_OF_TWO_STEPS, 'value_size': 1.}))])
def test_values_that_returns_do_not_bound_are_no_sign(rows):
  assert not _warnings(_signs(discount=.9, reward_clipping='none'), rows)
