"""Tests of measurements in turns: who is awake, when, and what is kept."""

from launch.benchmark import measure
from launch.benchmark import side_by_side


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
