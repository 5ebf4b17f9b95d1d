"""Conversion of Gymnasium's spaces to the arrays that an agent takes.

An observation, however it is nested, becomes at most two arrays: what the torso
sees, an image or a vector, and the numbers beside an image:

  space                          observation               features
  =============================  ========================  ===================
  Box                            as it is; bytes stay      none
                                 bytes, all else is
                                 float32
  Discrete, MultiDiscrete,       its vector (one-hot)      none
  MultiBinary
  Dict or Tuple of these,        one vector                none
  nested or not
  Dict or Tuple with images      images, joined over       vector of all else;
                                 their channels            none where there is
                                                           nothing else

An image is a Box [H, W, C] of bytes that convolutions can take. Vectors are
float32, with parts in the order of the space. `gymnasium.spaces.flatten`
decides what a part becomes.
"""

from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple

from dm_env import specs
import numpy as np

# Height and width from which the shallow torso's convolutions have an output.
MIN_IMAGE_SIZE = 20

# Its path in a nested space, and the space.
_Part = Tuple[Tuple[Any, ...], Any]

_FLAT = ('Box', 'Discrete', 'MultiDiscrete', 'MultiBinary')


class SpaceError(ValueError):
  """A space that cannot become an agent's input; the message says why."""


class Observed(NamedTuple):
  """An observation of one environment as an agent takes it."""
  observation: np.ndarray  # As `Converter.observation_spec`.
  features: Any = ()  # float32 [F], if F is not 0.


class Converter:
  """A function from observations of one space to `Observed`.

  Attributes:
    is_plain: whether the space is a Box, which only changes its type.
    observation_spec: spec of `Observed.observation`.
    num_features: F, numbers beside an image.
  """

  def __init__(self, space: Any):
    """Decides what each part of a `gymnasium.Space` becomes.

    Raises SpaceError for spaces without a fixed size (Sequence, Text, Graph and
    others), empty ones, and images of different sizes in one space.
    """
    from gymnasium import spaces  # Lazily: not every run needs it.
    self._images: List[_Part] = []
    self._vectors: List[_Part] = []
    self.is_plain = _kind(space) == 'Box'
    for path, part in _parts(space):
      is_seen = self.is_plain or _is_image(part)
      (self._images if is_seen else self._vectors).append((path, part))
    size = sum(spaces.flatdim(part) for _, part in self._vectors)
    self.num_features = size if self._images else 0
    if self.is_plain:
      dtype = np.uint8 if space.dtype == np.uint8 else np.float32
      self.observation_spec = specs.Array(space.shape, dtype, 'observation')
    elif self._images:
      self.observation_spec = _joined_spec([part for _, part in self._images])
    elif self._vectors:
      self.observation_spec = specs.Array((size,), np.float32, 'observation')
    else:
      raise SpaceError(f'{_kind(space)} with nothing in it')

  def __call__(self, observation: Any) -> Observed:
    """Converts one observation of the space."""
    dtype = self.observation_spec.dtype
    if self.is_plain:
      return Observed(np.asarray(observation, dtype))
    if not self._images:
      return Observed(self._vector(observation))
    image = np.concatenate(
        [_at(observation, path) for path, _ in self._images], axis=-1)
    return Observed(
        image, self._vector(observation) if self.num_features else ())

  def check(self, observation: Any) -> None:
    """Raises SpaceError at the first part that does not fit the space.

    As in training, a Box's bounds and number width are not checked: simulators
    are careless with both.
    """
    for path, space in (*self._images, *self._vectors):
      try:
        value = _at(observation, path)
        if _kind(space) == 'Box':
          value = np.asarray(value)
          fits = value.shape == space.shape and np.can_cast(
              value.dtype, space.dtype, 'same_kind')
        else:
          fits = space.contains(value)
      except (IndexError, KeyError, TypeError, ValueError):
        fits = False  # It is built in another way.
      if not fits:
        raise SpaceError(f'has no {space}{_place(path)}')

  def converted_space(self) -> Any:
    """Returns a Box; with features a Dict of 'observation' and 'features'."""
    from gymnasium import spaces
    spec = self.observation_spec
    low, high = (0, 255) if spec.dtype == np.uint8 else (-np.inf, np.inf)
    space = spaces.Box(low, high, spec.shape, spec.dtype.type)
    if not self.num_features:
      return space
    return spaces.Dict(observation=space, features=spaces.Box(
        -np.inf, np.inf, (self.num_features,), np.float32))

  def _vector(self, observation: Any) -> np.ndarray:
    from gymnasium import spaces
    return np.concatenate(
        [spaces.flatten(space, _at(observation, path))
         for path, space in self._vectors]).astype(np.float32)


def flat_mask(mask: Any, num_values: Sequence[int]) -> np.ndarray:
  """Joins the masks of all choices of a discrete action to uint8, 0 or 1.

  The mask is nonzero for each legal value: an array, or a tuple of one array
  for each choice, which has `num_values` [D]. Raises SpaceError if it is
  another, or leaves a choice without a legal value.
  """
  if mask is None:
    raise SpaceError('is missing')
  parts = mask if isinstance(mask, (tuple, list)) else [mask]
  flat = np.concatenate([np.ravel(part) for part in parts]) != 0
  if flat.size != sum(num_values):
    raise SpaceError(f'has {flat.size} entries and not {sum(num_values)}')
  first_values = np.cumsum([0, *num_values[:-1]])
  has_legal = np.logical_or.reduceat(flat, first_values)
  if not has_legal.all():
    what = ('action' if has_legal.size == 1
            else f'value of choice {np.argmin(has_legal)}')
    raise SpaceError(f'allows no {what}; each mask must allow at least one')
  return flat.astype(np.uint8)


def _kind(space: Any) -> str:
  """Names the kind of a space, of which it may be a subclass."""
  from gymnasium import spaces
  for name in (*_FLAT, 'Dict', 'Tuple'):
    if isinstance(space, getattr(spaces, name)):
      return name
  return type(space).__name__


def _parts(space: Any, path: Tuple[Any, ...] = ()
           ) -> Iterator[_Part]:
  """Yields the numeric parts of a nested space with paths; or SpaceError."""
  kind = _kind(space)
  if kind in _FLAT:
    yield path, space
  elif kind in ('Dict', 'Tuple'):
    keys = space.spaces if kind == 'Dict' else range(len(space.spaces))
    for key in keys:
      yield from _parts(space.spaces[key], (*path, key))
  else:
    raise SpaceError(
        f'{kind}{_place(path)}, which has no fixed size as a vector; only '
        f'{", ".join(_FLAT)}, and Dict and Tuple of them, do')


def _place(path: Tuple[Any, ...]) -> str:
  place = ''.join(f'[{key!r}]' for key in path)
  return place and f' at {place}'


def _at(observation: Any, path: Tuple[Any, ...]) -> Any:
  for key in path:
    observation = observation[key]
  return observation


def _is_image(space: Any) -> bool:
  return (_kind(space) == 'Box' and space.dtype == np.uint8
          and len(space.shape) == 3
          and min(space.shape[:2]) >= MIN_IMAGE_SIZE)


def _joined_spec(images: Any) -> specs.Array:
  """Makes the spec of images that are joined over their channels."""
  sizes = {image.shape[:2] for image in images}
  if len(sizes) > 1:
    raise SpaceError(
        f'images of the sizes {" and ".join(map(str, sorted(sizes)))}, which '
        'cannot be joined over their channels; a wrapper can make them equal')
  channels = sum(image.shape[2] for image in images)
  return specs.Array((*images[0].shape[:2], channels), np.uint8, 'observation')

