"""Growth of a run's memory, with numbers that can be checked by hand."""

import pytest

from lab.bench import growth
from lab.bench import measure


def test_growth_is_of_all_processes_and_means_of_looks():
  before = [dict(learner=400., actors=580.), dict(learner=440., actors=580.)]
  after = [dict(learner=440., actors=590.), dict(learner=440., actors=590.)]
  result = growth.summarise(before, after)
  assert result['mib']['learner'] == dict(before=420., after=440.)
  assert result['mib']['all'] == dict(before=1000., after=1030.)
  assert result['growth'] == pytest.approx(0.03)


@pytest.mark.parametrize('before,after,actors', [
    (dict(learner=400., actors=100.), dict(learner=400.), (100., 0.)),
    (dict(learner=400.), dict(learner=400., actors=100.), (0., 100.))])
def test_role_that_a_look_lacks_had_no_memory(before, after, actors):
  result = growth.summarise([before], [after])
  assert tuple(result['mib']['actors'].values()) == actors
  assert result['mib']['learner'] == dict(before=400., after=400.)


class _Run:
  """A run whose memory is a hundredth more after each second."""

  def __init__(self, *unused):
    self.secs = 0.
    self.is_closed = False

  def go_on_for(self, secs):
    self.secs += secs

  def own_mib(self):
    return {'in_process': 1000. + self.secs}

  def close(self):
    self.is_closed = True


def test_first_five_minutes_are_left_out(monkeypatch):
  run = _Run()
  monkeypatch.setattr(growth.training, 'TrainingRun', lambda *_: run)
  result = growth.run(measure.Setting('pong', 'pong.gin'), minutes=30.)
  mib = result['mib']['all']
  # Looks last a minute; the middle of each counts.
  assert mib['before'] == pytest.approx(1000. + 5 * 60, abs=40)
  assert mib['after'] - mib['before'] == pytest.approx(30 * 60)
  assert run.is_closed
