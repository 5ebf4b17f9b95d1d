"""The interface of all batches of environments."""

import abc
import contextlib
import dataclasses
import functools
import sys
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import dm_env
from dm_env import specs
import numpy as np
import tree

from impala_tf import config as config_lib
from impala_tf.envs import word_ids
from impala_tf.runs import metrics
from impala_tf.runtime import child

# Keys of `BatchedEnvironment.interface`.
CONVERSIONS = ('actions', 'observations')

_numbers = range(sys.maxsize)


class SimulatorError(Exception):
  """A simulator's failure: one line with level, environment, place and cause.

  It is no `UserError`, since a restarted actor may go on, and no RuntimeError,
  which contextlib takes for the StopIteration that caused it.
  """


def numbers() -> range:
  """Returns the run-wide numbers of the environments that are being made."""
  return _numbers


@contextlib.contextmanager
def numbered(of_envs: range) -> Iterator[None]:
  """Sets the run-wide numbers of environments made within the context."""
  global _numbers
  before, _numbers = _numbers, of_envs
  try:
    yield
  finally:
    _numbers = before


def discrete(num_actions: int) -> specs.DiscreteArray:
  """Makes the spec of actions 0 to `num_actions` - 1."""
  return specs.DiscreteArray(num_actions, dtype=np.int32, name='action')


def continuous(minimum: np.ndarray, maximum: np.ndarray) -> specs.BoundedArray:
  """Makes the spec of continuous actions [D] between two bounds, [D] each."""
  return specs.BoundedArray(
      np.shape(minimum), np.float32, minimum, maximum, name='action')


@dataclasses.dataclass(frozen=True)
class ActionBox:
  """A box of continuous actions, and the unit in which an agent gives them.

  If `scaled`, an agent's -1 and 1 stand for the bounds of numbers that have
  two. Otherwise its unit is the simulator's.
  """
  low: np.ndarray  # [D], of the simulator's dtype.
  high: np.ndarray  # Likewise.
  scaled: bool = True

  @property
  def is_bounded(self) -> np.ndarray:
    """Whether each dimension has a lower and an upper bound, bool [D]."""
    # Simulators also write the largest number for there being no bound.
    return (self.high.astype(np.float64) - self.low < np.finfo(np.float32).max)

  @functools.cached_property
  def _centre_and_half(self) -> tuple[np.ndarray, np.ndarray]:
    low = np.where(self.is_bounded, self.low, -1).astype(np.float64)
    high = np.where(self.is_bounded, self.high, 1).astype(np.float64)
    return (high + low) / 2, (high - low) / 2

  def fit(self, actions: np.ndarray) -> np.ndarray:
    """Converts actions [..., D] to the simulator's unit; clips to the box."""
    if self.scaled:
      centre, half = self._centre_and_half
      actions = centre + half * actions
    return np.clip(actions, self.low, self.high).astype(self.low.dtype)


def multi_discrete(nvec: Sequence[int]) -> specs.BoundedArray:
  """Makes the spec of composed actions: D choices, each below its nvec[d]."""
  return specs.BoundedArray(
      (len(nvec),), np.int32, 0, np.asarray(nvec, np.int32) - 1, name='action')


def num_choices(action_spec: specs.BoundedArray) -> np.ndarray:
  """Counts the values of each choice of discrete actions: int64 [] or [D]."""
  return np.asarray(action_spec.maximum, np.int64) + 1


class SideChannels(NamedTuple):
  """Arrays that are observed beside `observation`, or their specs.

  `types.EnvOutput` explains them; a missing channel is (). Metrics are
  `metrics.MISSING` before an environment's first episode has ended.
  """
  instruction: Any = ()  # int32 [E, L].
  features: Any = ()  # float32 [E, F].
  action_mask: Any = ()  # uint8 [E, P].
  episode_metrics: Any = ()  # float32 [E, M].


NO_SIDE_CHANNELS = SideChannels()


def put_rows(arrays: Any, rows: Any, values: Any) -> None:
  """Writes values, tensors or arrays, to rows of a structure of arrays."""
  # `tree.map_structure` would take ten times as long.
  for array, value in zip(tree.flatten(arrays), tree.flatten(values),
                          strict=True):
    array[rows] = value


class BatchedEnvironment(abc.ABC):
  """E copies of one level that are stepped together.

  The interface is that of dm_env with a leading [E]. Seeds are 0 or more.

  An environment resets itself within the step that terminates its episode, and
  one step after a time limit, whose last observation is a separate row.
  `types.py` has the table of step types and discounts. A row's reward and
  discount belong to the action before it, its observation to the action after
  it; an action at a LAST row is not played.

  The arrays of a `dm_env.TimeStep` **may be overwritten by the next call** of
  `reset` or `step`: copy what must last.

  Attributes:
    level: name by which the batch was made, for messages.
    num_envs: E.
    frames_per_step: emulator frames in one agent step; 1 without repeats.
    frames_per_sec: emulator frames in a second of play, for videos.
    frame_stack: S. If S > 1, observations are [H, W, S], the oldest frame
      first, with zeros before the episode's first.
    level_index: int32 [E], number of each environment's level in the run.
    instruction_length: L, words of an instruction; 0 for no instructions.
    action_box: bounds of continuous actions; None for discrete ones.
    interface: conversions that a policy must repeat when it acts elsewhere.
      'actions': bounds [low, high, dtype]. 'observations': arguments of
      `spaces.Converter`, the space first. A value, or the space, is None if
      levels of the run differ in it.
    remarks: sentences that a user should read before the level is learned,
      without its name.
    episode_metric_names: names of M numbers that the level reports of episodes.
    num_instructions_cut: number of instructions that had more than L words.
    reward_scale: factor of agents' rewards; those of `step` are without it.
    on_termination: some batches call it before they reset environment 0.
  """

  frames_per_sec = 60.
  reward_scale = 1.
  on_termination: Callable[[], None] | None = None

  def __init__(self, level: str, num_envs: int, action_spec: specs.BoundedArray,
               observation_spec: specs.Array, frames_per_step: int = 1,
               frame_stack: int = 1, instruction_length: int = 0,
               num_features: int = 0, has_action_mask: bool = False,
               episode_metric_names: Sequence[str] = ()):
    self.level = level
    self.num_envs = num_envs
    self.frames_per_step = frames_per_step
    self.frame_stack = frame_stack
    self.level_index = np.zeros(num_envs, np.int32)
    self.instruction_length = instruction_length
    self.episode_metric_names = episode_metric_names
    num_logits = num_choices(action_spec).sum() if has_action_mask else 0

    def channel(size, value, dtype):
      return np.full([num_envs, size], value, dtype) if size else ()

    self.instruction: Any = channel(
        instruction_length, word_ids.PADDING, np.int32)
    self.features: Any = channel(num_features, 0, np.float32)
    self.action_mask: Any = channel(num_logits, 1, np.uint8)
    self.episode_metrics: Any = channel(
        len(episode_metric_names), metrics.MISSING, np.float32)
    self._instruction_texts = [''] * num_envs
    self.num_instructions_cut = 0
    self._action_spec = action_spec
    self._is_discrete = np.issubdtype(action_spec.dtype, np.integer)
    self.action_box: Any = None
    self.interface: dict[str, Any] = {}
    if self._is_discrete:
      self._num_choices = num_choices(action_spec).astype(np.uint32)
    else:
      self._scale_actions(action_spec.minimum, action_spec.maximum)
    self.remarks: list[str] = []
    self._observation_spec = observation_spec
    self._numbers = numbers()
    # For subclasses with time limits: whether the last row was LAST, [E].
    self._was_truncated = np.zeros(num_envs, bool)

  def name_of(self, i: int) -> str:
    """Names environment i by its number in the run, for messages."""
    # The only one of a batch needs no number; its process may be named by it.
    return (f'environment {self._numbers[i]}' if self.num_envs > 1
            else 'the environment')

  def action_spec(self) -> specs.BoundedArray:
    """Returns one environment's action spec: `discrete`, `continuous` etc."""
    return self._action_spec

  def observation_spec(self) -> specs.Array:
    """Returns one environment's observation spec, without the leading [E]."""
    return self._observation_spec

  @property
  def side_channels(self) -> SideChannels:
    """Arrays observed beside `observation`, overwritten by the next step."""
    return SideChannels(self.instruction, self.features, self.action_mask,
                        self.episode_metrics)

  def side_channel_specs(self) -> SideChannels:
    """Returns specs of one environment's side channels, without the [E]."""
    return SideChannels(*(
        specs.Array(array.shape[1:], array.dtype) if isinstance(
            array, np.ndarray) else () for array in self.side_channels))

  def keep_common_interface(self, other: 'BatchedEnvironment') -> None:
    """Sets values of `interface` to None that differ from another level's."""
    for name, value in self.interface.items():
      others = other.interface.get(name)
      if value != others:
        self.interface[name] = None
        if name == 'observations' and value and others and (
            value[1:] == others[1:]):  # They are converted alike.
          self.interface[name] = [None, *value[1:]]

  def _scale_actions(self, low: np.ndarray, high: np.ndarray) -> None:
    self.action_box = ActionBox(low, high)
    self.interface['actions'] = [low.tolist(), high.tolist(), str(low.dtype)]

  @abc.abstractmethod
  def reset(self) -> dm_env.TimeStep:
    """Begins an episode in every environment; returns rows that are FIRST.

    Rewards are 0 and discounts 1. The first call starts the random stream of
    the seed; later calls go on with it.
    """

  def _first(self, observation: np.ndarray) -> dm_env.TimeStep:
    self._was_truncated = np.zeros(self.num_envs, bool)
    return dm_env.TimeStep(
        step_type=np.full(self.num_envs, dm_env.StepType.FIRST, np.uint8),
        reward=np.zeros(self.num_envs, np.float32),
        discount=np.ones(self.num_envs, np.float32),
        observation=observation)

  def _as_timestep(self, begins: np.ndarray, reward: np.ndarray,
                   discount: np.ndarray, observation: np.ndarray,
                   truncated: Any = False) -> dm_env.TimeStep:
    """Makes a step's rows: FIRST at `begins`, LAST at `truncated`, else MID."""
    # FIRST is 0, MID is 1 and LAST is 2.
    return dm_env.TimeStep(
        step_type=(~begins).astype(np.uint8) + np.uint8(truncated),
        reward=reward.astype(np.float32),
        discount=discount.astype(np.float32), observation=observation)

  def _instruct(self, i: int, text: str) -> None:
    """Sets environment i's instruction, for this observation and later ones."""
    if text == self._instruction_texts[i]:  # In most steps nothing changes.
      return
    self._instruction_texts[i] = text
    ids = word_ids.word_ids(text)
    if len(ids) > self.instruction_length:
      if not self.num_instructions_cut:
        child.remark(
            f'{self.level}: an instruction of {len(ids)} words is cut to the '
            f'{self.instruction_length} of AgentConfig.instruction_length, and '
            f'others may be: "{text}"')
      self.num_instructions_cut += 1
      ids = ids[:self.instruction_length]
    self.instruction[i] = word_ids.PADDING
    self.instruction[i, :len(ids)] = ids

  def step(self, actions: np.ndarray) -> dm_env.TimeStep:
    """Plays one agent step in every environment, after `reset`.

    Actions are int32 [E] or [E, D], within `action_spec()`; or floats [E, D],
    which `action_box` fits to its bounds. Returns `step_type` uint8 [E];
    `reward` float32 [E], raw; `discount` float32 [E], 0 or 1; `observation`
    [E, ...]. Raises UserError for actions of another type or shape, out of
    range, or not finite: some simulators would hang.
    """
    spec = self._action_spec
    wanted = (self.num_envs,) + spec.shape
    if (not isinstance(actions, np.ndarray) or actions.shape != wanted
        or actions.dtype.kind != spec.dtype.kind
        or self._is_discrete and actions.dtype != spec.dtype):
      array = np.asarray(actions)
      raise config_lib.UserError(
          f'{self.level}: actions must be a NumPy array, {spec.dtype} of '
          f'shape {wanted}, but are {array.dtype} of shape {array.shape} '
          f'({type(actions).__name__})')
    # Seen as unsigned, a negative action is too large: one comparison does.
    is_wrong = (actions.view(np.uint32) >= self._num_choices
                if self._is_discrete else ~np.isfinite(actions))
    if is_wrong.any():
      i = np.flatnonzero(is_wrong.reshape([self.num_envs, -1]).any(axis=1))[0]
      raise config_lib.UserError(f'{self.level}: ' + (
          f'action {actions[i]} of {self.name_of(i)} is out of range; it must '
          f'be within 0 to {spec.maximum}'
          if self._is_discrete else
          f'the action of {self.name_of(i)} is not finite, as of a network '
          'that has diverged; lower OptimizerConfig.learning_rate'))
    if self.action_box is not None:
      actions = self.action_box.fit(actions)
    return self._step(actions)

  def disable_conversions(self, names: Sequence[str] = CONVERSIONS) -> None:
    """Turns off the named conversions of `interface`; policies can do them.

    Then `step` takes continuous actions in the simulator's unit.
    """
    if self.action_box is not None and 'actions' in names:
      self.action_box = dataclasses.replace(self.action_box, scaled=False)
      self.interface.pop('actions', None)

  @abc.abstractmethod
  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    """Plays one agent step with actions that `step` has checked."""

  @abc.abstractmethod
  def render(self) -> np.ndarray:
    """Returns a picture of environment 0 for videos: uint8 [H, W, 3]."""

  def close(self) -> None:  # noqa: B027
    """Frees the simulators, if any; nothing may be called afterwards."""
