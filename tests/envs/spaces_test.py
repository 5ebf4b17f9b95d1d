"""Conversion of nested observations, and masks of several choices."""

import json

from gymnasium import spaces as gym_spaces
import numpy as np
import pytest

from impala_tf.envs import spaces

_IMAGE = gym_spaces.Box(0, 255, (20, 24, 3), np.uint8)
_GREY = gym_spaces.Box(0, 255, (20, 24, 1), np.uint8)
_FIRST = gym_spaces.Box(0, 255, (3, 24, 20), np.uint8)
_FLOATS = gym_spaces.Box(0, 1, (24, 20, 2), np.float32)
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
  assert [text[:28] for text in spaces.Converter(space, True).remarks] == (
      ['observations [1, 1, 2] at [1'] * isinstance(space, gym_spaces.Tuple))


@pytest.mark.parametrize('space, dtype', [
    (_IMAGE, np.uint8), (gym_spaces.Box(0, 1, (2, 3), np.float64), np.float32),
    (gym_spaces.Box(0, 9, (), np.int64), np.float32)])
def test_box_stays_as_it_is(space, dtype):
  converter = spaces.Converter(space)
  sample = space.sample()
  observed = converter(sample)
  assert observed.features == () and observed.action_mask is None
  assert observed.observation.dtype == converter.observation_spec.dtype == dtype
  np.testing.assert_array_equal(observed.observation, np.asarray(sample, dtype))


@pytest.mark.parametrize('space', [
    _NEST, gym_spaces.Discrete(3, start=-1), _FLOATS, gym_spaces.MultiBinary(3),
    gym_spaces.Box(0, np.inf, (3,), np.int64), gym_spaces.Box(0, 1, (), bool),
    gym_spaces.Tuple([gym_spaces.Box(0, 1, (1, 0)), gym_spaces.Discrete(2)]),
    gym_spaces.Dict(observation=_FIRST, action_mask=gym_spaces.MultiBinary(4))])
def test_converter_is_made_again_from_data(space):
  space.seed(3)
  once = spaces.Converter(space, True, 4)
  data = json.loads(json.dumps(once.description()))
  again = spaces.Converter.from_description(data)
  assert again.observation_spec == once.observation_spec
  sample = space.sample()
  for a, b in zip(once(sample), again(sample)):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('space, words', [
    (gym_spaces.Sequence(gym_spaces.Discrete(2)), 'Sequence, which has no'),
    (gym_spaces.Dict(a=gym_spaces.Tuple([gym_spaces.Text(3)])),
     r"Text at \['a'\]\[0\], which has no fixed size"),
    (gym_spaces.Dict(), 'Dict with nothing in it$'),
    (gym_spaces.Dict({np.int64(1): _FLOATS}), "a Dict with .*'numpy.int64'>; "),
    (gym_spaces.Tuple([gym_spaces.Dict()]), 'Tuple with nothing in it$'),
    (gym_spaces.Tuple([_IMAGE, gym_spaces.Box(0, 255, (24, 24, 1), np.uint8)]),
     r'images of the sizes \(20, 24\) and \(24, 24\), which cannot be joined')])
def test_what_has_no_fixed_size_is_refused_in_one_line(space, words):
  with pytest.raises(
      spaces.SpaceError, match=f'^observations of {words}') as error:
    spaces.Converter(space)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('wrong', [
    {'b': 3}, {'a': (0,), 'b': 3}, {'a': (0, np.zeros(3)), 'b': 3},
    {'a': (0, [1., 2.]), 'b': 4}, None, [], np.zeros(4)])
def test_observation_of_another_space_is_refused(wrong):
  converter = spaces.Converter(gym_spaces.Dict(
      a=gym_spaces.Tuple([gym_spaces.Discrete(2),
                          gym_spaces.Box(0, 1, (2,), np.float32)]),
      b=gym_spaces.Discrete(4)))
  # Beyond the bounds, and float64.
  converter({'a': (np.int32(1), np.array([-1., 2.])), 'b': 3})
  with pytest.raises(spaces.SpaceError, match='^must be .* at .*, but is .'):
    converter(wrong)


# Pictures of other conventions.


@pytest.mark.parametrize('space, white', [
    (gym_spaces.Box(0, 1, (24, 24, 3), np.float64), 1.),
    (gym_spaces.Box(0, 1, (24, 24, 3), np.uint8), 1),
    (gym_spaces.Box(0, 1, (5, 5, 3), bool), True),
    (gym_spaces.Box(-1, 1, (24, 24, 1), np.float32), 1.),
    (gym_spaces.Box(-np.inf, np.inf, (24, 24, 1), np.float32), 1.),
    (gym_spaces.Box(0, np.inf, (24, 24, 1), np.int32), 1),
    (gym_spaces.Box(-128, 0, (24, 24, 1), np.int8), -128),
    (gym_spaces.Box(0, 2**32 - 1, (24, 24, 1), np.uint32), 2**32 - 1),
    (gym_spaces.Box(0, 255, (24, 24, 1), np.float32), 255.),
    (gym_spaces.Box(0, 255, (24, 20), np.uint8), 255),
    (gym_spaces.Box(0, 1, (4, 24, 20), np.float32), 1.)])
def test_white_is_255_whatever_it_was(space, white):
  converter = spaces.Converter(space, pictures=True)
  seen = converter(np.full(space.shape, white, space.dtype)).observation
  np.testing.assert_array_equal(abs(seen), 255)
  converter.observation_spec.validate(seen)
  black = converter(np.zeros(space.shape, space.dtype)).observation
  assert seen.ndim == 3 and not black.any()
  assert (seen.dtype == np.uint8) == (space.dtype == np.uint8 and white == 255)


@pytest.mark.parametrize('shape, seen', [
    ((84, 84, 4), (84, 84, 4)), ((10, 10, 4), (10, 10, 4)),
    ((4, 4, 30), (4, 4, 30)), ((7, 7, 20), (7, 7, 20)),
    ((6, 7, 2), (6, 7, 2)), ((7, 5, 9), (7, 5, 9)), ((5, 5, 5), (5, 5, 5)),
    ((4, 10, 10), (10, 10, 4)), ((20, 7, 7), (7, 7, 20)),
    ((2, 6, 7), (6, 7, 2)), ((3, 210, 160), (210, 160, 3)),
    ((1, 9, 9), (9, 9, 1))])
def test_channels_are_found_by_the_shape(shape, seen):
  space = gym_spaces.Box(0, 1, shape, np.uint8)
  converter = spaces.Converter(space, pictures=True)
  assert converter.observation_spec.shape == seen
  assert bool(converter.remarks) == (shape != seen)


def test_pictures_of_all_conventions_are_joined_in_a_nest():
  space = gym_spaces.Dict(
      a=_FIRST, b=_FLOATS, c=gym_spaces.Box(0, 255, (24, 20), np.uint8),
      n=gym_spaces.Discrete(2))
  sample = space.sample()
  converter = spaces.Converter(space, pictures=True)
  observed = converter(sample)
  converter.observation_spec.validate(observed.observation)
  np.testing.assert_array_equal(
      observed.observation, np.concatenate(
          [np.moveaxis(sample['a'], 0, -1), 255 * sample['b'],
           sample['c'][..., np.newaxis]], axis=-1))
  assert observed.features.tolist() == np.eye(2)[sample['n']].tolist()


# Types.


@pytest.mark.parametrize('space, given, wanted', [
    (gym_spaces.Box(0, 255, (2,), np.uint8), np.array([0, 255]), [0, 255]),
    (gym_spaces.Box(0, 255, (2,), np.uint8), [0., 7.], [0, 7]),
    (gym_spaces.Box(-1, 1, (2,), np.float32), [True, False], [1, 0]),
    (gym_spaces.Discrete(3), np.float64(1), [0, 1, 0]),
    (gym_spaces.MultiBinary(2), np.array([True, False]), [1, 0])])
def test_numbers_of_another_type_are_converted(space, given, wanted):
  converter = spaces.Converter(space)
  seen = converter(given).observation
  assert seen.tolist() == wanted
  assert seen.dtype == converter.observation_spec.dtype


@pytest.mark.parametrize('space, given, words', [
    (gym_spaces.Box(0, 255, (2,), np.uint8), np.array([0, 256]),
     r'must be Box \[2\] of uint8, but is int64 \[2\]'),
    (gym_spaces.Box(0, 255, (2,), np.uint8), [.5, np.nan], 'but is float64'),
    (gym_spaces.Box(0, 255, (2,), np.uint8), np.uint16([300, 7]), 'uint16'),
    (gym_spaces.Dict(a=gym_spaces.Box(-9, 9, (2,), np.int8)),
     {'a': np.array([300, 5])}, 'but is int64'),
    (gym_spaces.Box(-1, 1, (), np.float32), None, 'but is a NoneType'),
    (gym_spaces.Box(-1, 1, (2,), np.float32), ['1', '2'], 'but is <U1'),
    (gym_spaces.Box(-1, 1, (2,), np.float32), [[1], [1, 2]], 'but is a list'),
    (gym_spaces.MultiBinary(2), [0, 2], 'but is int64')])
def test_what_cannot_be_converted_is_refused_with_what_is_declared(
    space, given, words):
  with pytest.raises(spaces.SpaceError, match=words) as error:
    spaces.Converter(space)(given)
  assert '\n' not in str(error.value)


# Masks.


@pytest.mark.parametrize('mask_space, is_mask', [
    (gym_spaces.MultiBinary(4), True),
    (gym_spaces.Box(0, 1, (4,), np.int8), True),
    (gym_spaces.Tuple([gym_spaces.MultiBinary(n) for n in (3, 1)]), True),
    (gym_spaces.Dict(a=gym_spaces.MultiBinary(4)), False),
    (gym_spaces.MultiBinary(3), False)])  # It fits no action.
def test_mask_in_a_dict_is_no_input(mask_space, is_mask):
  space = gym_spaces.Dict(observation=_IMAGE, action_mask=mask_space)
  converter = spaces.Converter(space, num_logits=4)
  sample = space.sample()
  observed = converter(sample)
  np.testing.assert_array_equal(observed.observation, sample['observation'])
  assert converter.has_mask == is_mask
  assert (observed.action_mask is not None) == is_mask
  assert converter.num_features == (
      0 if is_mask else gym_spaces.flatdim(mask_space))
  assert spaces.Converter(space).num_features  # If no mask is looked for.


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
