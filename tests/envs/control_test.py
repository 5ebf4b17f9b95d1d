"""dm_control's tasks against the suite's own environments, stepped by hand."""

import dm_env
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import control
from tests.fixtures import egl

FIRST, MID, LAST = dm_env.StepType
E = 2


def _actions(env, rng):
  return rng.uniform(-1, 1, (E, *env.action_spec().shape)).astype(np.float32)


@pytest.mark.parametrize('name, keys, num_actions', [
    ('cartpole/balance', ('position', 'velocity'), 1),
    # 'height' is a plain number.
    ('walker/walk', ('orientations', 'height', 'velocity'), 6)])
@pytest.mark.slow
def test_rows_are_those_of_the_suite(name, keys, num_actions):
  from dm_control import suite
  env = control.ControlEnvironment(name, E, seed=7)
  others = [suite.load(*name.split('/'), task_kwargs={'random': 7 + i})
            for i in range(E)]
  assert env.level == f'control/{name}' and env.frames_per_step == 1
  assert env.action_spec().shape == (num_actions,)
  np.testing.assert_array_equal(env.action_spec().minimum, -1)
  np.testing.assert_array_equal(env.action_spec().maximum, 1)

  def flat(timestep):
    assert set(timestep.observation) == set(keys)
    return np.concatenate([np.atleast_1d(timestep.observation[key])
                           for key in keys]).astype(np.float32)

  row = env.reset()
  for e, other in enumerate(others):
    np.testing.assert_array_equal(row.observation[e], flat(other.reset()))
  rng = np.random.default_rng(0)
  num_firsts = 0
  for t in range(1, 1005):
    actions = _actions(env, rng)
    row = env.step(actions)
    for e, other in enumerate(others):
      timestep = other.step(actions[e])
      # It resets in the step after its last, as these environments do.
      assert row.reward[e] == np.float32(timestep.reward or 0)
      assert row.step_type[e] == timestep.step_type
      assert row.discount[e] == 1  # A limit of time is no end.
      assert timestep.last() == (t == 1000)
      num_firsts += timestep.first()
      np.testing.assert_array_equal(row.observation[e], flat(timestep))
  assert num_firsts == E


@pytest.mark.slow
def test_first_episodes_of_a_batch_for_training_end_one_after_another():
  """Only the first are shorter: each later one has its 1,000 steps."""
  run = config.Config()
  training = control.DOMAIN.make('cartpole/balance', 4, 0, run, True)
  scored = control.DOMAIN.make('cartpole/balance', 4, 0, run, False)
  ends = {True: [], False: []}
  for is_training, env in ((True, training), (False, scored)):
    env.reset()
    for t in range(1, 2003):
      row = env.step(np.zeros((4, 1), np.float32))
      assert (row.discount == 1).all()  # Truncated, so values go on.
      ends[is_training] += [
          (t, e) for e in np.flatnonzero(row.step_type == LAST)]
  # An episode has 1,000 steps and a reset.
  firsts = [(236, 1), (472, 3), (618, 0), (854, 2)]
  assert ends[True] == [*firsts, *((t + 1001, e) for t, e in firsts)]
  assert ends[False] == [(t, e) for t in (1000, 2001) for e in range(4)]


def test_a_task_that_terminates_has_discount_0(monkeypatch):
  from dm_control.suite import cartpole
  env = control.ControlEnvironment('cartpole/balance', E, seed=0)
  env.reset()
  ends = iter([None, None, 0., None, None, None])  # Step by step, turn by turn.
  monkeypatch.setattr(cartpole.Balance, 'get_termination',
                      lambda self, physics: next(ends))
  rows = []
  for _ in range(3):
    row = env.step(np.zeros((E, 1), np.float32))
    rows.append((row.step_type.tolist(), row.discount.tolist()))
  assert rows == [([MID, MID], [1, 1]), ([FIRST, MID], [0, 1]),
                  ([MID, MID], [1, 1])]


@pytest.mark.skipif(egl.obstacle() != '', reason=egl.obstacle())
# 'escape' draws its height field when an episode begins; 'CMU' terminates.
@pytest.mark.parametrize('name', [
    'acrobot/swingup', 'ball_in_cup/catch', 'humanoid_CMU/run',
    'manipulator/bring_ball', 'quadruped/escape'])
@pytest.mark.nightly
def test_tasks_of_all_kinds_can_be_played_and_filmed(name):
  env = control.ControlEnvironment(name, E, seed=0)
  for row in (env.reset(), env.step(_actions(env, np.random.default_rng(0)))):
    assert row.observation.shape == (E,) + env.observation_spec().shape
    assert np.isfinite(row.observation).all()
  picture = env.render()
  assert picture.shape == (240, 320, 3) and picture.std() > 0
  env.close()


@pytest.mark.parametrize('name, message', [
    ('cartpole/balanse', 'did you mean control/cartpole/balance'),
    ('lqr/lqr_2_1', 'no level .* with a limit of time are acrobot/swingup, ')])
def test_unknown_task_is_refused_with_what_there_is(name, message):
  with pytest.raises(config.ConfigError, match=message):
    control.ControlEnvironment(name, E, seed=0)
