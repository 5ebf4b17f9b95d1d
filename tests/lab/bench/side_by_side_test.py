"""Tests of measurements in turns: who is awake, when, and what is kept."""

import pytest

from lab.bench import measure
from lab.bench import side_by_side
from lab.bench import training


def test_one_run_is_awake_at_a_time_and_rounds_go_there_and_back(
    monkeypatch):
  awake, turns, closed = set(), [], []

  class Run:
    """Copies what `side_by_side` uses of `training.TrainingRun`."""
    peak_pss_mib = 5.

    def __init__(self, config_path, bindings):
      assert not awake
      self.name = config_path + ''.join(bindings)
      awake.add(self.name)

    def hold(self):
      awake.remove(self.name)

    def go_on(self):
      awake.add(self.name)

    def measure(self, secs):
      assert awake == {self.name}
      turns.append((self.name, secs))
      return len(turns)

    def close(self):
      closed.append(self.name)

  monkeypatch.setattr(side_by_side.training, 'TrainingRun', Run)
  measured = side_by_side.run(
      {'x': measure.Setting('X', 'a', ['1']), 'y': measure.Setting('Y', 'b')},
      rounds=2, secs=7.)
  # The first turn of each does not count.
  assert turns == [(name, 7.) for name in ('a1', 'b', 'a1', 'b', 'b', 'a1')]
  assert measured == {'x': side_by_side.Measured([3, 6], 5.),
                      'y': side_by_side.Measured([4, 5], 5.)}
  assert sorted(closed) == ['a1', 'b']


def _window(frames, secs, cpu_secs=1., lags=()):
  return training.Window(
      frames, secs, {'learner': 0.75 * cpu_secs, 'actors': 0.25 * cpu_secs},
      0., 0., [{'policy_lag': lag} for lag in lags] + [{}])


def test_speeds_are_compared_within_a_round_and_cpu_of_all_is_counted():
  # The host is twice as fast in the second round, and has a hiccup in the
  # third, in which IMPALA is hardly measured.
  windows = {
      'a2c_sync_step': [_window(400, 1.), _window(1600, 2., 2.),
                        _window(400, 1.)],
      'impala': [_window(1000, 1., 1., (1., 2.)), _window(2000, 1., 2., (3.,)),
                 _window(100, 1., 0.1)]}
  result = side_by_side.summarise(
      {name: side_by_side.Measured(of_run, peak_pss_mib=1.)
       for name, of_run in windows.items()}, 'impala')
  step, impala = result['a2c_sync_step'], result['impala']
  assert step['frames_per_sec'] == pytest.approx(2400 / 4)
  assert (step['ratio_low'], step['ratio'], step['ratio_high']) == (
      pytest.approx((0.4, 0.4, 4.)))
  assert impala['ratio_low'] == impala['ratio'] == impala['ratio_high'] == 1
  assert step['cpu_secs_per_1000_frames'] == pytest.approx(1e3 * 4 / 2400)
  assert step['cores'] == pytest.approx(4 / 4)
  # The mean of rows that have a lag.
  assert impala['policy_lag_updates'] == pytest.approx(2.)
  assert step['policy_lag_updates'] is None
