"""Conversion of observations of Gymnasium's spaces to an agent's arrays.

However it is nested, an observation becomes at most two arrays. The torso sees
an image or a vector; `features` are the numbers beside an image.

- A Box stays as it is, bytes or float32.
- Discrete, MultiDiscrete and MultiBinary become a vector, one-hot.
- A Dict or Tuple of these becomes one vector.
- In a Dict or Tuple with images, these are joined over their channels. All
  other parts are features.

An image is a Box [H, W, C] of bytes that convolutions can take. Vectors are
float32, with parts in the order of the space, by `gymnasium.spaces.flatten`.
Torsos of images divide by 255. For them pictures of other conventions become
such images, see `Converter`.
"""

from typing import Any, Iterator, NamedTuple, Sequence

from dm_env import specs
import numpy as np

# Height and width from which the shallow torso's convolutions have an output.
MIN_IMAGE_SIZE = 20

# Key under which other libraries have the legal actions, in `info`s, too.
MASK = 'action_mask'

# Its path in a nested space, and the space.
_Part = tuple[tuple[Any, ...], Any]

_FLAT = ('Box', 'Discrete', 'MultiDiscrete', 'MultiBinary')
# Arguments by which a space that is no Box is made again.
_ARGUMENTS = {'Discrete': ('n', 'start'), 'MultiDiscrete': ('nvec', 'start'),
              'MultiBinary': ('n',)}
# From here on a bound of floats and of signed integers stands for there being
# none: Gymnasium writes infinity as the largest integer of a type.
_NO_BOUND, _NO_INTEGER = np.finfo(np.float32).max / 2, np.iinfo(np.int32).max


class SpaceError(ValueError):
  """Error for a space, observation or mask that an agent cannot read."""


class NothingLegal(SpaceError):
  """Error for a mask that allows no action."""


class Observed(NamedTuple):
  """An observation of one environment, converted for the agent."""
  observation: np.ndarray  # As `Converter.observation_spec`.
  features: Any = ()  # float32 [F], if F is not 0.
  action_mask: Any = None  # As the observation has it, if it has one.


class _Image(NamedTuple):
  """A Box that the torso sees, and how it is converted before."""
  path: tuple[Any, ...]
  space: Any
  spec: specs.Array  # Its shape and dtype afterwards.
  is_first: bool  # Whether its channels come first.
  factor: float | None  # It is multiplied by this; None: it stays as it is.

  def __call__(self, observation: Any) -> np.ndarray:
    array = _part(observation, self.path, self.space, self.spec.dtype)
    if self.is_first:
      array = np.moveaxis(array, 0, -1)
    if self.factor is not None:
      array = array * np.float32(self.factor)
    return array.reshape(self.spec.shape)


class Converter:
  """A converter from the observations of one space to `Observed`.

  With `pictures`, any Box that can be one becomes an image whose larger bound,
  if it has one, is 255; channels come last, and without any it gets one.

  Attributes:
    observation_spec: spec of `Observed.observation`.
    num_features: F, numbers beside an image.
    has_mask: whether the observation brings an action mask along.
    remarks: sentences for users.
  """

  def __init__(self, space: Any, pictures: bool = False, num_logits: int = 0):
    """Decides what each part of a `gymnasium.Space` becomes.

    A Dict's 'action_mask' of `num_logits` numbers is a mask, and no input.
    Raises SpaceError for spaces without a fixed size, empty ones, and images of
    different sizes in one space.
    """
    from gymnasium import spaces  # Lazily: not every run needs it.
    self._arguments = space, pictures, int(num_logits)
    parts = list(_parts(space))
    others = [part for part in parts if part[0][:1] != (MASK,)]
    self.has_mask = bool(num_logits) and len(others) < len(parts) and (
        kind_of(space[MASK]) != 'Dict'
        and spaces.flatdim(space[MASK]) == num_logits)
    if self.has_mask:
      parts = others
    is_plain = len(parts) == 1 and kind_of(parts[0][1]) == 'Box' and (
        self.has_mask or kind_of(space) == 'Box')
    self._images: list[_Image] = []
    self._vectors: list[_Part] = []
    for path, part in parts:
      image = _image(path, part, pictures, is_plain)
      if image is None:
        self._vectors.append((path, part))
      else:
        self._images.append(image)
    size = sum(spaces.flatdim(part) for _, part in self._vectors)
    self.num_features = size if self._images else 0
    self.observation_spec = (
        _joined_spec([image.spec for image in self._images]) if self._images
        else specs.Array((size,), np.float32, 'observation'))
    if 0 in self.observation_spec.shape:  # TensorFlow would crash.
      raise SpaceError(f'observations of {kind_of(space)} with nothing in it')
    self.remarks = [
        f'observations {list(image.space.shape)}{_place(image.path)} are taken '
        f'for pictures of {image.space.shape[0]} channels, which come first'
        for image in self._images if image.is_first] + [
            f'observations {list(part.shape)}{_place(path)} are taken for mere '
            'numbers: beside other parts, a picture has at least '
            f'{MIN_IMAGE_SIZE} x {MIN_IMAGE_SIZE} pixels'
            for path, part in self._vectors
            if pictures and part.dtype == np.uint8 and len(part.shape) == 3]

  def leave_scale(self) -> None:
    """Turns off the scaling of pictures that keep their shape; policies do it.

    A policy knows by their shape alone which it has to convert.
    """
    self._images = [
        image._replace(factor=None)
        if image.path == () and image.space.shape == image.spec.shape else image
        for image in self._images]

  def __call__(self, observation: Any) -> Observed:
    """Converts one observation; raises SpaceError if it does not fit the space.

    Bounds of a Box are not checked, and numbers of another width are converted:
    simulators are careless with both.
    """
    features: Any = ()
    if self._images:
      array, *others = (image(observation) for image in self._images)
      if others:
        array = np.concatenate([array, *others], axis=-1)
      if self.num_features:
        features = self._vector(observation)
    else:
      array = self._vector(observation)
    return Observed(array, features,
                    observation.get(MASK) if self.has_mask else None)

  def description(self) -> list[Any]:
    """Returns data from which `from_description` makes the same converter.

    Of a Box's bounds it has only the lowest and the highest.
    """
    space, *others = self._arguments
    return [_to_data(space), *others]

  @classmethod
  def from_description(cls, description: Sequence[Any]) -> 'Converter':
    """Makes a converter again; damaged data raises any kind of error."""
    space, *others = description
    return cls(_from_data(space), *others)

  def _vector(self, observation: Any) -> np.ndarray:
    from gymnasium import spaces
    return np.concatenate(
        [spaces.flatten(space, _part(observation, path, space, space.dtype))
         for path, space in self._vectors]).astype(np.float32)


def _to_data(space: Any) -> dict[str, Any]:
  kind = kind_of(space)
  if kind == 'Dict':
    return {kind: [[key, _to_data(part)] for key, part in space.spaces.items()]}
  if kind == 'Tuple':
    return {kind: [_to_data(part) for part in space.spaces]}
  if kind == 'Box':
    bounds = [0, 0]
    if 0 not in space.shape:
      # As Python's numbers: float64 would round the largest int64 up.
      bounds = [space.low.min().item() + 0, space.high.max().item() + 0]
    return {kind: [*bounds, list(space.shape), str(space.dtype)]}
  return {kind: {name: np.asarray(getattr(space, name)).tolist()
                 for name in _ARGUMENTS[kind]}}


def _from_data(description: Any) -> Any:
  from gymnasium import spaces
  (kind, content), = description.items()
  if kind == 'Dict':
    return spaces.Dict([(key, _from_data(part)) for key, part in content])
  if kind == 'Tuple':
    return spaces.Tuple([_from_data(part) for part in content])
  if kind == 'Box':
    low, high, shape, dtype = content
    return spaces.Box(low, high, tuple(shape), np.dtype(dtype).type)
  return getattr(spaces, kind)(
      **{name: content[name] for name in _ARGUMENTS[kind]})


def cast(given: np.ndarray, dtype: Any) -> np.ndarray | None:
  """Casts an array to `dtype`; None if not numeric, or values would not fit."""
  if given.dtype.kind not in 'biuf':
    return None
  with np.errstate(invalid='ignore'):
    array = given.astype(dtype, copy=False)
  if array is given or np.dtype(dtype).kind == 'f' or (array == given).all():
    return array
  return None


def flat_mask(mask: Any, num_values: Sequence[int]) -> np.ndarray:
  """Joins the masks of D choices into one, uint8 [sum(num_values)], 0 or 1.

  A mask is nonzero for each legal value: an array, or a tuple of one for each
  choice. Raises SpaceError for another, or if a choice has no legal value.
  """
  if mask is None:
    raise SpaceError('is missing')
  parts = mask if isinstance(mask, (tuple, list)) else [mask]
  flat = np.concatenate([(), *map(np.ravel, parts)]) != 0
  if flat.size != sum(num_values):
    raise SpaceError(f'has {flat.size} entries and not {sum(num_values)}')
  has_legal = np.logical_or.reduceat(flat, np.cumsum([0, *num_values[:-1]]))
  if not has_legal.all():
    what = ('action' if has_legal.size == 1
            else f'value of choice {np.argmin(has_legal)}')
    raise NothingLegal(f'allows no {what}; each mask must allow at least one')
  return flat.astype(np.uint8)


def kind_of(space: Any) -> str:
  """Returns a space's kind, such as 'Box' for a Box or a subclass of Box."""
  from gymnasium import spaces
  for name in (*_FLAT, 'Dict', 'Tuple'):
    if isinstance(space, getattr(spaces, name)):
      return name
  return type(space).__name__


def _parts(space: Any, path: tuple[Any, ...] = ()) -> Iterator[_Part]:
  """Yields a nested space's leaves with paths; SpaceError if one is unfit."""
  kind = kind_of(space)
  if kind in _FLAT:
    if 0 not in space.shape:
      yield path, space
  elif kind in ('Dict', 'Tuple'):
    for key in space.spaces if kind == 'Dict' else range(len(space.spaces)):
      if not isinstance(key, (str, int)):
        raise SpaceError(f'observations of a Dict with the key {key!r} of '
                         f'{type(key)}; make it a str or an int')
      yield from _parts(space.spaces[key], (*path, key))
  else:
    raise SpaceError(
        f'observations of {kind}{_place(path)}, which has no fixed size as a '
        'vector; only '
        f'{", ".join(_FLAT)}, and Dict and Tuple of them, do')


def _place(path: tuple[Any, ...]) -> str:
  place = ''.join(f'[{key!r}]' for key in path)
  return place and f' at {place}'


def _part(observation: Any, path: tuple[Any, ...], space: Any,
          dtype: Any) -> np.ndarray:
  """Returns the part at `path` as `dtype`; raises SpaceError if it is unfit."""
  seen = 'missing'
  try:
    for key in path:
      observation = observation[key]
    seen = f'a {type(observation).__name__}'
    given = np.asarray(observation)
    if given.ndim:
      seen = f'{given.dtype} {list(given.shape)}'
    elif given.dtype.kind in 'biuf':
      seen = str(given)
    array = cast(given, dtype)
    if array is not None and given.shape == space.shape and (
        kind_of(space) == 'Box' or space.contains(array)):
      return array
  except (IndexError, KeyError, TypeError, ValueError):
    pass  # It is built in another way.
  wanted = (f'Box {list(space.shape)} of {space.dtype}'
            if kind_of(space) == 'Box' else space)
  raise SpaceError(f'must be {wanted}{_place(path)}, but is {seen}')


def _image(path: tuple[Any, ...], space: Any, pictures: bool,
           is_plain: bool) -> _Image | None:
  """Returns how a Box becomes the torso's image; None if it is no image."""
  if kind_of(space) != 'Box':
    return None
  shape = space.shape
  is_byte = space.dtype == np.uint8
  is_first = False
  if pictures and len(shape) == 3:
    is_first = _has_channels_first(shape)
    shape = (*shape[1:], shape[0]) if is_first else shape
  elif pictures and len(shape) == 2 and min(shape) >= MIN_IMAGE_SIZE:
    shape = (*shape, 1)
  is_large = len(shape) == 3 and min(shape[:2]) >= MIN_IMAGE_SIZE
  if not is_plain and not (is_large and (is_byte or pictures)):
    return None
  factor = None
  if pictures and len(shape) == 3:
    bound = max(abs(float(space.low.min())), abs(float(space.high.max())))
    if not (is_byte and bound == 255):
      limit = _NO_INTEGER if space.dtype.kind == 'i' else _NO_BOUND
      factor = 255 / bound if 0 < bound < limit else 255.
  dtype = np.uint8 if is_byte and factor is None else np.float32
  return _Image(path, space, specs.Array(shape, dtype, 'observation'),
                is_first, factor)


def _has_channels_first(shape: Sequence[int]) -> bool:
  """Returns whether a picture's channels are its first dimension, not its last.

  The sides of most pictures are equal. Of others the channels are far fewer.
  """
  first, middle, last = shape
  if first == middle or middle == last:
    return first != middle
  return 2 * first <= min(middle, last)


def _joined_spec(images: Sequence[specs.Array]) -> specs.Array:
  sizes = {image.shape[:2] for image in images}
  if len(sizes) > 1:
    raise SpaceError(
        'observations of images of the sizes '
        f'{" and ".join(map(str, sorted(sizes)))}, which '
        'cannot be joined over their channels; a wrapper can make them equal')
  if len(images) == 1:
    return images[0]
  return specs.Array(
      (*images[0].shape[:2], sum(image.shape[2] for image in images)),
      np.result_type(*(image.dtype for image in images)), 'observation')
