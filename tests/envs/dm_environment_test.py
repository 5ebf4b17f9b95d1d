"""Environments of dm_env: actions, observations, ends, seeds and refusals."""

import functools
import sys

import dm_env
from dm_env import specs
import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.envs import factory
from impala_tf.runtime import user_modules

FIRST, MID, LAST = dm_env.StepType
_PAIR = specs.Array((2,), float)


class Echo(dm_env.Environment):
  """An environment that observes the last action and ends after two steps."""

  def __init__(self, action_spec, observation_spec=_PAIR,
               observation=(0., 0.), last_discount=0., seed=None):
    self._action_spec, self._observation_spec = action_spec, observation_spec
    self._observation, self._last_discount = observation, last_discount
    self.seed, self.actions, self.is_closed = seed, [], False

  def action_spec(self):
    return self._action_spec

  def observation_spec(self):
    return self._observation_spec

  def reset(self):
    self._steps = 0
    return dm_env.restart(self._observation)

  def step(self, action):
    self._action_spec.validate(action)
    self.actions.append(action)
    self._steps += 1
    if self._steps < 2:
      return dm_env.transition(1., self._observation)
    return dm_env.TimeStep(LAST, 2., self._last_discount, self._observation)

  def close(self):
    self.is_closed = True


@pytest.fixture(name='make')
def _make(tmp_path, modules_forgotten):
  """Makes a batch of what the user's function returns; and what that was."""
  del modules_forgotten  # Only to be so afterwards.
  (tmp_path / 'my_dm_env.py').write_text('')
  user_modules.load([str(tmp_path / 'my_dm_env.py')])

  def make(function, num_envs=1, seed=3, **kwargs):
    made = []

    @functools.wraps(function)
    def note(**arguments):
      made.append(function(**arguments))
      return made[-1]

    sys.modules['my_dm_env'].make = note
    level = 'dm_env/my_dm_env:make'
    config = config_lib.Config(environment=config_lib.EnvironmentConfig(
        level=level, kwargs=kwargs))
    return factory.make_environment(
        level, num_envs, seed, config, training=True), made

  return make


_DISCRETE = specs.DiscreteArray(3)


@pytest.mark.parametrize('spec, action, expected', [
    (_DISCRETE, np.int32(2), 2),
    (specs.BoundedArray((), np.int64, -1, 1), np.int32(2), 1),
    (specs.BoundedArray((), bool, False, True), np.int32(1), True),
    (specs.BoundedArray((1,), np.float64, 0, 1), np.array([.5]), [.75]),
    (specs.BoundedArray((2,), np.int16, [1, -4], [3, 0]),
     np.array([2, 0], np.int32), [3, -4]),
    (specs.BoundedArray((2,), np.float64, -1, [1, 2]),
     np.array([.5, 9.], np.float32), [.5, 2.]),
    (specs.BoundedArray((1,), np.float64, -.1, .1), np.array([1.], np.float32),
     [.1]),
    (specs.BoundedArray((), np.float32, 0, 1), np.array([.5], np.float32), .75),
    (specs.Array((1,), np.float32), np.array([-7.], np.float32), [-7.])])
def test_action_arrives_as_its_spec_says(make, spec, action, expected):
  env, (echo,) = make(lambda: Echo(spec))
  env.reset()
  env.step(np.stack([action]))
  assert np.array_equal(echo.actions, [expected])


@pytest.mark.parametrize('spec, observation, expected', [
    (specs.Array((2, 1), np.float64), [[1.], [2.]], [[1.], [2.]]),
    (specs.DiscreteArray(3), 1, [0., 1., 0.]),
    (specs.BoundedArray((40, 40, 3), np.uint8, 0, 1),
     np.ones((40, 40, 3), np.uint8), np.full((40, 40, 3), 255.)),
    ({'b': specs.Array((), bool), 'a': [specs.DiscreteArray(2),
                                        specs.Array((1,), np.int64)]},
     {'b': True, 'a': [1, np.array([7])]}, [0., 1., 7., 1.])])
def test_observation_is_one_array_however_nested(
    make, spec, observation, expected):
  env, _ = make(lambda: Echo(_DISCRETE, spec, observation))
  timestep = env.reset()
  assert timestep.observation.dtype == np.float32
  np.testing.assert_array_equal(timestep.observation, [expected])


@pytest.mark.parametrize('discount, rows', [
    (0., [(MID, 1., 1.), (FIRST, 2., 0.), (MID, 1., 1.)]),
    (.9, [(MID, 1., 1.), (LAST, 2., 1.), (FIRST, 0., 1.)])])
def test_last_step_with_a_discount_is_a_time_limit(make, discount, rows):
  env, _ = make(lambda: Echo(_DISCRETE, last_discount=discount))
  env.reset()
  steps = [env.step(np.zeros(1, np.int32)) for _ in rows]
  assert [(step.step_type[0], step.reward[0], step.discount[0])
          for step in steps] == rows


def test_copies_have_their_own_seeds_and_arguments(make):
  env, made = make(
      lambda sizes, seed: sizes.append(seed) or Echo(_DISCRETE, seed=sizes),
      num_envs=3, sizes=[8])
  assert [echo.seed for echo in made] == [[8, 3], [8, 4], [8, 5]]
  env.close()
  assert all(echo.is_closed for echo in made)


@pytest.mark.parametrize('function, words', [
    (lambda: Echo(specs.StringArray(())), 'has actions of StringArray'),
    (lambda: Echo({'a': _DISCRETE}), 'has actions of {'),
    (lambda: Echo(_DISCRETE, [specs.StringArray(())]), 'which are no numbers'),
    (lambda: Echo(_DISCRETE, {}), 'Dict with nothing in it'),
    (lambda: 1 / 0, 'ZeroDivisionError: division by zero')])
def test_unsupported_environment_is_refused_in_one_line(make, function, words):
  with pytest.raises(config_lib.ConfigError, match=words):
    make(function)


@pytest.mark.parametrize('level, words', [
    ('dm_env/os:system', "calls code of 'os', which was not imported"),
    ('dm_env/my_dm_env', 'must be dm_env/<module>:<function>'),
    ('dm_env/my_dm_env:', 'must be dm_env/<module>:<function>'),
    ('dm_env/my_dm_env:nothing', "my_dm_env has no function 'nothing'"),
    ('dm_env/my_dm_env:__name__', "my_dm_env has no function '__name__'")])
def test_only_functions_of_imported_modules_are_levels(make, level, words):
  del make
  with pytest.raises(config_lib.ConfigError, match=words):
    factory.check_level(level)
