"""Conversion of nested observations, and masks of several choices."""

from gymnasium import spaces as gym_spaces
import numpy as np
import pytest

from impala_tf.envs import spaces

_IMAGE = gym_spaces.Box(0, 255, (20, 24, 3), np.uint8)
_GREY = gym_spaces.Box(0, 255, (20, 24, 1), np.uint8)
_NEST = gym_spaces.Dict(
    z=_IMAGE, k=gym_spaces.Discrete(3, start=2),
    inner=gym_spaces.Tuple([
        gym_spaces.MultiDiscrete([2, 3], start=[4, 0]), _GREY,
        gym_spaces.Dict(b=gym_spaces.MultiBinary(2),
                        x=gym_spaces.Box(-9, 9, (2, 2), np.float64))]))


def test_images_are_joined_and_all_else_is_one_vector_beside_them():
  converter = spaces.Converter(_NEST)
  image, grey = _IMAGE.sample(), _GREY.sample()
  observed = converter({
      'z': image, 'k': np.int64(4),
      'inner': (np.array([5, 1]), grey,
                {'b': np.array([0, 1], np.int8),
                 'x': np.array([[.5, -2.], [3., 4.]])})})
  np.testing.assert_array_equal(
      observed.observation, np.concatenate([image, grey], axis=-1))
  np.testing.assert_array_equal(
      observed.features,
      np.float32([0, 0, 1, 0, 1, 0, 1, 0, 0, 1, .5, -2, 3, 4]))
  assert observed.features.dtype == np.float32
  converter.observation_spec.validate(observed.observation)
  assert converter.num_features == len(observed.features)


@pytest.mark.parametrize('space, vector', [
    (gym_spaces.Discrete(3, start=-1), [0, 0, 1]),
    (gym_spaces.MultiDiscrete([2, 2]), [0, 1, 1, 0]),
    (gym_spaces.MultiBinary(3), [1, 0, 1]),
    # Bytes that are no image, and an image too small for convolutions.
    (gym_spaces.Tuple([gym_spaces.Box(0, 9, (2,), np.uint8),
                       gym_spaces.Box(0, 9, (1, 1, 2), np.uint8)]),
     [3, 4, 5, 6])])
def test_without_images_there_is_one_vector(space, vector):
  observation = {'Discrete': 1, 'MultiDiscrete': np.array([1, 0]),
                 'MultiBinary': np.array([1, 0, 1], np.int8),
                 'Tuple': (np.uint8([3, 4]), np.uint8([[[5, 6]]]))}
  converter = spaces.Converter(space)
  observed = converter(observation[type(space).__name__])
  np.testing.assert_array_equal(observed.observation, np.float32(vector))
  converter.observation_spec.validate(observed.observation)
  assert observed.features == () and converter.num_features == 0


@pytest.mark.parametrize('space, dtype', [
    (_IMAGE, np.uint8), (gym_spaces.Box(0, 1, (2, 3), np.float64), np.float32),
    (gym_spaces.Box(0, 9, (), np.int64), np.float32)])
def test_box_stays_as_it_is(space, dtype):
  converter = spaces.Converter(space)
  sample = space.sample()
  observed = converter(sample)
  assert converter.is_plain and observed.features == ()
  assert observed.observation.dtype == converter.observation_spec.dtype == dtype
  np.testing.assert_array_equal(observed.observation, np.asarray(sample, dtype))


def test_what_was_converted_stays_as_it_is_when_it_is_converted_again():
  for space in (_NEST, gym_spaces.Discrete(3), gym_spaces.Dict(only=_IMAGE)):
    once = spaces.Converter(space)
    twice = spaces.Converter(once.converted_space())
    assert twice.observation_spec == once.observation_spec
    assert twice.num_features == once.num_features


@pytest.mark.parametrize('space, words', [
    (gym_spaces.Sequence(gym_spaces.Discrete(2)), '^Sequence, which has no'),
    (gym_spaces.Dict(a=gym_spaces.Tuple([gym_spaces.Text(3)])),
     r"^Text at \['a'\]\[0\], which has no fixed size"),
    (gym_spaces.Graph(_GREY, None), '^Graph, .* only Box, Discrete, '),
    (gym_spaces.Dict(), '^Dict with nothing in it$'),
    (gym_spaces.Tuple([gym_spaces.Dict()]), '^Tuple with nothing in it$'),
    (gym_spaces.Tuple([_IMAGE, gym_spaces.Box(0, 255, (24, 24, 1), np.uint8)]),
     r'images of the sizes \(20, 24\) and \(24, 24\), which cannot be joined')])
def test_what_has_no_fixed_size_is_refused_in_one_line(space, words):
  with pytest.raises(spaces.SpaceError, match=words) as error:
    spaces.Converter(space)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('wrong', [
    {'b': 3}, {'a': (0,), 'b': 3}, {'a': (0, [[1.], [2., 3.]]), 'b': 3},
    {'a': (0, np.zeros(3)), 'b': 3}, {'a': (0, ['x', 'y']), 'b': 3},
    {'a': (0, [1., 2.]), 'b': -1}, {'a': (0, [1., 2.]), 'b': 4}, None, 7, [],
    np.zeros(4)])
def test_observation_of_another_space_is_told(wrong):
  converter = spaces.Converter(gym_spaces.Dict(
      a=gym_spaces.Tuple([gym_spaces.Discrete(2),
                          gym_spaces.Box(0, 1, (2,), np.float32)]),
      b=gym_spaces.Discrete(4)))
  # Beyond the bounds, and float64.
  converter.check({'a': (np.int32(1), np.array([-1., 2.])), 'b': 3})
  with pytest.raises(spaces.SpaceError, match='^has no .* at .'):
    converter.check(wrong)


@pytest.mark.parametrize('mask', [
    (np.array([0, 3, 0]), np.array([True, False])),
    [0, 1, 0, 1, 0], np.array([False, True, False, True, False])])
def test_masks_of_choices_are_joined(mask):
  flat = spaces.flat_mask(mask, [3, 2])
  assert flat.dtype == np.uint8 and flat.tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize('mask, words', [
    (None, 'is missing'), ([1, 1, 1, 1], 'has 4 entries and not 5'),
    ([1, 1, 1, 0, 0], 'allows no value of choice 1')])
def test_masks_that_say_nothing_are_refused(mask, words):
  with pytest.raises(spaces.SpaceError, match=words):
    spaces.flat_mask(mask, [3, 2])
