"""A population in one process: the paper's rule, and the same every time."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.core import weights
from impala_tf.pbt import populations
from impala_tf.pbt import rules
from impala_tf.roles import in_process
from impala_tf.runs import metrics
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from tests.fixtures import hosts
from tests.fixtures.faults import disturbed_member

pytestmark = pytest.mark.usefixtures('servers_stay')

_NAMES = ('learning_rate', 'epsilon', 'entropy_cost')
_UPDATES = 11  # Some after the last decision.
_BURN_IN_UPDATES = 2
_FRAMES_PER_UPDATE = 16 * 10


def _configs(directory, total_updates=_UPDATES):
  """Makes two members of Catch."""
  configs = {}
  for name in disturbed_member.MEMBERS:
    (directory / name).mkdir(parents=True, exist_ok=True)
    config = disturbed_member.config_of(str(directory / name))
    configs[str(directory / name)] = (
        config.replaced(
            'experiment', total_frames=total_updates * _FRAMES_PER_UPDATE)
        .replaced('optimizer', max_gradient_norm=40.)
        .replaced('population', mutation_factor=1.5))
  return configs


def _run_in_turns(members, control):
  """Trains members, by their runs' directories, those with fewest frames first.

  Each trains until its next decision, while the others rest. So the same seeds
  give the same numbers, unlike those of `population.sh`.
  """
  unfinished = list(members)  # In order: of equal frames the first one plays.
  while unfinished and not control.should_stop():
    run_dir = min(unfinished, key=_frames)
    if _take_turn(members[run_dir], run_dir, control):
      unfinished.remove(run_dir)


def _frames(run_dir):
  rows = metrics.read_rows(run_dir)
  return rows[-1]['frames'] if rows else 0


def _take_turn(config, run_dir, control):
  """Trains a member until its next decision; returns whether it is done."""
  before = populations.read_published(run_dir)

  def should_stop():
    return (control.should_stop() or
            populations.read_published(run_dir) != before)

  return in_process.run(
      config, control_lib.Endpoint(run_dir),
      dataclasses.replace(control, should_stop=should_stop),
      interfaces.Reports())


def _numbers(directory):
  """Returns all rows and decisions, but for what depends on the clock."""
  events = _events(directory)
  return {name: (hosts.rows(directory / name), events[name])
          for name in disturbed_member.MEMBERS}


@pytest.fixture(name='trained', scope='module')
def _trained(tmp_path_factory, servers_stay):
  """Trains a population, and resumes it; returns its directory."""
  del servers_stay  # Only to be there first.
  directory = tmp_path_factory.mktemp('population')
  for _ in range(2):  # Then nothing is left to be done.
    _run_in_turns(_configs(directory), control_lib.LoopControl())
  return directory


def _events(directory):
  return {name: populations.read_events(str(directory / name))
          for name in disturbed_member.MEMBERS}


def test_every_member_trains_to_its_end(trained):
  for name, (rows, events) in _numbers(trained).items():
    assert rows[-1]['updates'] == _UPDATES
    decided, last = (_tensors(trained / name / path) for path in (
        'population/published-2', f'checkpoints/ckpt-{_UPDATES}'))
    assert any(np.any(value != last[key]) for key, value in decided.items()
               if key.startswith('agent'))
    assert [event.evolution for event in events] == [1, 2]
    assert events[0].frames > _BURN_IN_UPDATES * _FRAMES_PER_UPDATE


def test_decisions_are_the_papers_rule(trained):
  """Each is computed anew from the log."""
  events = _events(trained)
  published = {(name, event.evolution): event for name in events
               for event in events[name]}
  for index, name in enumerate(disturbed_member.MEMBERS):
    for event in events[name]:
      rng = rules.generator(1, index, event.evolution)
      partner, = [other for other in disturbed_member.MEMBERS if other != name]
      rng.random()  # By which the partner was drawn.
      assert event.partner == partner
      basis = event.before
      if event.partner_score is not None:
        # It is the partner's fitness after its last decision so far.
        of_partner = published[partner, event.partner_evolution]
        assert event.partner_score == of_partner.fitness
        assert event.partner_frames == of_partner.frames
        assert event.is_copy == (event.partner_score > event.score + 0.05)
        if event.is_copy:
          basis = of_partner.after
      for key in sorted(_NAMES):
        is_mutated, is_raised = rng.random() < 0.33, rng.random() < 0.5
        factor = (1.5 if is_raised else 1 / 1.5) if is_mutated else 1.
        assert event.after[key] == float(np.float32(basis[key] * factor))
      assert event.after['max_gradient_norm'] == basis['max_gradient_norm']
  found = [event for each in events.values() for event in each]
  assert any(e.is_copy for e in found)
  assert any(not e.is_copy and e.before != e.after for e in found)


def test_score_is_that_of_the_episodes_since_the_last_decision(trained):
  rows, events = _numbers(trained)['good']
  burn_in, first = rows[_BURN_IN_UPDATES - 1], rows[events[0].updates - 1]
  assert 50 <= first['episodes'] - burn_in['episodes'] < 100
  assert first['episodes'] <= 100
  assert events[0].score == pytest.approx(
      (_mean_return(burn_in, first) + 1) / 2)


def _mean_return(begin, end):
  """Returns the mean of the episodes between two rows of the first hundred."""
  total = end['episodes'] * end['episode_return'] - (
      begin['episodes'] * begin['episode_return'])
  return total / (end['episodes'] - begin['episodes'])


@pytest.mark.slow
def test_replayed_games_do_not_count(tmp_path):
  config = _configs(tmp_path)[str(tmp_path / 'copies')]
  hosts.run_in_process(config.replaced('learner', batch_size=32).replaced(
      'replay', replay_fraction=0.5), tmp_path / 'copies')
  rows, (event, *_) = _numbers(tmp_path)['copies']
  burn_in, decision = rows[_BURN_IN_UPDATES - 1], rows[event.updates - 1]
  assert 50 <= decision['episodes'] - burn_in['episodes'] < 100
  assert event.score == pytest.approx(_mean_return(burn_in, decision) - 1)


def test_actors_get_the_copy_and_not_the_parameters_that_it_replaced(
    trained, tmp_path, monkeypatch):
  published = hosts.published(monkeypatch)
  # With a lag of 0, each update is published by itself and at once.
  config = _configs(tmp_path)[str(tmp_path / 'copies')].replaced(
      'actor', controlled_lag_updates=0)
  shutil.copytree(trained / 'good', tmp_path / 'good', dirs_exist_ok=True)
  hosts.run_in_process(config, tmp_path / 'copies', hosts.StoppedBy(
      lambda: bool(_events(tmp_path)['copies'])))
  event, = _events(tmp_path)['copies']
  assert event.is_copy
  parameters, = (parameters for stamp, parameters in published
                 if stamp.version == event.updates)
  agent = saved.load_agent(str(tmp_path / 'copies')).agent
  np.testing.assert_array_equal(
      parameters, weights.make_snapshot(agent.published_variables)())


def test_changed_values_are_those_that_the_learner_uses(trained):
  for rows, events in _numbers(trained).values():
    for event, following in zip(events, [*events[1:], None]):
      last = following.updates - 1 if following else len(rows)
      assert last > event.updates or not following
      for row in rows[event.updates:last]:
        for name in (*_NAMES, 'max_gradient_norm'):
          assert row[name] == pytest.approx(event.after[name], rel=1e-6)


@pytest.mark.slow
def test_same_seed_gives_the_same_numbers(trained, tmp_path):
  # Stopped in between two turns, and resumed.
  host = hosts.StoppedBy(lambda: bool(_events(tmp_path)['copies']))
  _run_in_turns(_configs(tmp_path), host.control)
  _run_in_turns(_configs(tmp_path), control_lib.LoopControl())
  assert _numbers(tmp_path) == _numbers(trained)


def _tensors(path):
  reader = tf.train.load_checkpoint(str(path))
  return {name.partition('/.ATTR')[0]: reader.get_tensor(name)
          for name in reader.get_variable_to_shape_map()
          if not name.startswith('_')}


def test_copy_has_the_others_parameters_and_its_own_counts(trained):
  event = _events(trained)['copies'][0]
  assert event.is_copy and event.partner_evolution == 1
  published = _tensors(trained / 'good' / 'population' / 'published-1')
  # Its turn ended with this checkpoint, before anything else was learned.
  own = _tensors(trained / 'copies' / 'checkpoints' / f'ckpt-{event.updates}')
  copied = 0
  for name, value in published.items():
    own_name = name.replace('optimizer', 'learner/optimizer')
    assert np.array_equal(own[own_name], value), name
    copied += value.size
  assert copied > 2 * 50 * 8  # Kernels and slots.
  assert own['learner/num_updates'] == event.updates
  assert own['learner/num_frames'] == event.frames
  assert own['population/evolution'] == 1
  assert not own['population/episodes'].any()
  assert np.isnan(own['population/means']).all()
  assert (trained / 'copies/population/copied-1.index').exists()
  for name, value in event.after.items():
    assert own[f'hyperparameters/{name}'] == np.float32(value)


def test_member_is_an_ordinary_run_until_the_burn_in_ends(trained, tmp_path):
  # A sweep of the same draws can then be compared in pairs.
  config = _configs(tmp_path, total_updates=4)[str(tmp_path / 'good')]
  hosts.run_in_process(dataclasses.replace(
      config, population=config_lib.PopulationConfig()), tmp_path / 'good')
  alone, _ = _numbers(tmp_path)['good']
  member, _ = _numbers(trained)['good']
  assert alone == member[:4]
  assert not (tmp_path / 'good' / 'population').exists()
