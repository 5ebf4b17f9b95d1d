"""Acting on NumPy batches, for actors and for evaluation."""

import math
import types as python_types
from typing import Any, Callable, Sequence

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.envs import environment as environment_lib


class EpisodeCounter:
  """A counter of each environment's episode: sum of raw rewards, and steps.

  A lost life does not end an episode (its row is MID): episodes are full games.
  `reward_scale` is a factor of the rewards that agents get.
  """

  def __init__(self, num_envs: int, reward_scale: float = 1.):
    self._reward_scale = np.float32(reward_scale)
    self._return = np.zeros(num_envs)  # In float32 long sums stop growing.
    self._steps = np.full(num_envs, -1, np.int32)  # `reset` is no step.
    self._ended = np.zeros(num_envs, bool)
    self._was_truncated = np.zeros(num_envs, bool)

  def env_output(self, timestep: dm_env.TimeStep,
                 side_channels: environment_lib.SideChannels =
                 environment_lib.NO_SIDE_CHANNELS,
                 rows: Any = slice(None)) -> types.EnvOutput:
    """Adds one batched step to the counts; the first must be that of `reset`.

    The step is of the environments `rows`, int [n] without repetition. Returns
    it with its counts, in arrays that the next call overwrites.
    """
    goes_on = ~self._ended[rows]
    begins = timestep.step_type == int(dm_env.StepType.FIRST)
    self._ended[rows] = begins
    # `where`, not a product: NaN * 0 would leak into the next episode.
    self._return[rows] = (
        np.where(goes_on, self._return[rows], 0) + timestep.reward)
    steps = self._steps[rows] * goes_on + 1
    if begins.any():  # In most steps none does.
      was_truncated = self._was_truncated[rows]
      steps -= begins & was_truncated  # A reset is no step.
      # An episode that ends with a failure of its simulator reports 0 steps.
      steps[begins & (timestep.discount > 0) & ~was_truncated] = 0
    self._steps[rows] = steps
    self._was_truncated[rows] = timestep.step_type == int(dm_env.StepType.LAST)
    return types.EnvOutput(
        step_type=timestep.step_type,
        reward=(timestep.reward if self._reward_scale == 1 else
                timestep.reward * self._reward_scale),
        discount=timestep.discount,
        observation=timestep.observation,
        episode_return=self._return[rows].astype(np.float32),
        episode_steps=self._steps[rows],
        **side_channels._asdict())


class InputBuffer:
  """Memory that TensorFlow reads in place and NumPy arrays are copied into.

  Making a tensor of an array costs 5 to 25 us a step, and on Python 3.11 each
  leaks 16 bytes. Here one tensor serves all calls. That is sound if no output
  of the graph shares its inputs' memory.
  """

  # TensorFlow's alignment; its kernels crash the process with any other.
  _ALIGNMENT_BYTES = 64

  def __init__(self, like: np.ndarray, max_rows: int):
    """Allocates `max_rows` rows with the dtype and row shape of `like`."""
    shape = (max_rows, *like.shape[1:])
    num_bytes = math.prod(shape) * like.itemsize
    memory = np.zeros(num_bytes + self._ALIGNMENT_BYTES, np.uint8)
    start = -memory.ctypes.data % self._ALIGNMENT_BYTES
    self._array = (
        memory[start:start + num_bytes].view(like.dtype).reshape(shape))
    self._tensors: dict[int, tf.Tensor] = {}  # By number of rows.

  def tensor(self, array: np.ndarray, num_rows: int) -> tf.Tensor:
    """Copies an array [num_rows, ...] to a tensor; the next call overwrites it.

    Raises ValueError for another shape, TypeError for another kind of dtype.
    """
    rows = self._array[:num_rows]
    if array.shape != rows.shape:  # NumPy would stretch it.
      raise ValueError(f'an array must be {rows.shape} for the agent, but is '
                       f'{array.shape}')
    if self._array.dtype == bool:  # TensorFlow takes none through DLPack.
      return tf.constant(array)
    np.copyto(rows, array, casting='same_kind')
    if num_rows not in self._tensors:
      self._tensors[num_rows] = tf.experimental.dlpack.from_dlpack(
          rows.__dlpack__())
    return self._tensors[num_rows]


def make_assign(variables: Sequence[tf.Variable]
                ) -> Callable[[tf.Tensor], None]:
  """Makes a function that assigns a vector, float32 [P], to variables."""
  sizes = [variable.shape.num_elements() for variable in variables]

  def assign(parameters):
    # A variable may keep the memory of its new value as its own.
    copy = tf.raw_ops.DeepCopy(x=parameters)
    for variable, values in zip(variables, tf.split(copy, sizes)):
      variable.assign(
          tf.cast(tf.reshape(values, variable.shape), variable.dtype))

  return tf.function(assign, autograph=False).get_concrete_function(
      tf.TensorSpec([sum(sizes)], tf.float32))


class Policy:
  """An agent that acts on NumPy batches of E environments.

  Each call is one call of a graph. Its number and the seed determine the
  actions that are sampled in it. `core_state` is the memory of all E before
  their next x_t, tensors [E, ...]; NumPy arrays if `by_rows`.
  """

  def __init__(self, agent: agent_lib.Agent, num_envs: int, seed: int,
               deterministic: bool = False, by_rows: bool = False):
    """Sets the memory to that before an episode's first step.

    With `by_rows`, which costs a little more, each call is for any of the
    environments. One graph serves any number of them.
    """
    self.core_state = agent.initial_state(num_envs)
    self._agent = agent
    self._num_envs = num_envs
    self._by_rows = by_rows
    if by_rows:
      self.core_state = tf.nest.map_structure(
          lambda t: t.numpy(), self.core_state)
      self._state_buffers = tf.nest.map_structure(
          lambda array: InputBuffer(array, num_envs), self.core_state)
    self._deterministic = deterministic
    self._seed = np.array([seed, -1], np.int32)  # The number of the last call.
    self._seed_input_buffer = InputBuffer(self._seed, len(self._seed))
    # A concrete function; the first call, which shows the shapes, makes it.
    self._graph: Any = None

  def act(self, env_output: types.EnvOutput,
          rows: np.ndarray | None = None) -> types.AgentOutput:
    """Chooses actions at x_t; returns them and their logits as NumPy arrays.

    If `by_rows`, they are for the environments `rows`, int [n].
    """
    if self._graph is None:
      self._build(env_output)
    self._seed[1] += 1
    num_rows, core_state = self._num_envs, self.core_state
    if rows is not None:
      num_rows = len(rows)
      core_state = tf.nest.map_structure(
          lambda input_buffer, array: input_buffer.tensor(
              array[rows], num_rows), self._state_buffers, core_state)
    # A `tf.function` checks its inputs to choose a graph, and a concrete
    # function checks their structure, every time: together a third of a small
    # batch's cost. Raw operations take concrete functions, too.
    packed, *state = tf.raw_ops.StatefulPartitionedCall(
        args=[
            *(input_buffer.tensor(getattr(env_output, name), num_rows)
              for name, input_buffer in self._input_buffers.items()),
            *tf.nest.flatten(core_state),
            self._seed_input_buffer.tensor(self._seed, len(self._seed)),
            *self._captured],
        Tout=self._output_types, f=self._named)
    if state:
      state = tf.nest.pack_sequence_as(core_state, state)
      if rows is None:
        self.core_state = state
      else:
        environment_lib.put_rows(self.core_state, rows, state)
    values, distribution = packed.numpy(), self._agent.distribution
    shape = (num_rows, *distribution.action_shape)
    size = math.prod(shape)
    return types.AgentOutput(
        values[:size].view(distribution.action_dtype.as_numpy_dtype
                           ).reshape(shape),
        values[size:].reshape(num_rows, -1))

  def _build(self, env_output: types.EnvOutput) -> None:
    # TensorFlow gets only the fields that the agent uses.
    names = ['observation', 'instruction', 'features', 'action_mask']
    if self._agent.reads_rewards:
      names += ['step_type', 'reward']
    self._input_buffers = {
        name: InputBuffer(getattr(env_output, name), self._num_envs)
        for name in names if not isinstance(getattr(env_output, name), tuple)}
    seen = [getattr(env_output, name) for name in self._input_buffers]
    structure = seen, self.core_state

    def step(*inputs):
      seen, core_state = tf.nest.pack_sequence_as(structure, inputs[:-1])
      agent_output, core_state = self._agent.step(
          types.EnvOutput(**dict(zip(self._input_buffers, seen))), core_state,
          inputs[-1], self._deterministic)
      # In one vector, so that they are one tensor. The bits of whole numbers
      # are moved as float32, and not computed with.
      packed = tf.concat(
          [tf.reshape(tf.bitcast(agent_output.action, tf.float32), [-1]),
           tf.reshape(agent_output.policy_logits, [-1])], axis=0)
      # Without copies, a state that is part of an observation would change with
      # its buffer: TensorFlow, and `tf.identity`, pass such memory on as it is.
      return [packed, *(tf.raw_ops.DeepCopy(x=state)
                        for state in tf.nest.flatten(core_state))]

    num_rows = None if self._by_rows else self._num_envs
    specs = [tf.TensorSpec((num_rows, *x.shape[1:]), x.dtype)
             for x in tf.nest.flatten(structure)]
    self._graph = tf.function(step, autograph=False).get_concrete_function(
        *specs, tf.TensorSpec(self._seed.shape, self._seed.dtype))
    # Kept, since these properties cost 30 us a step. TensorFlow asks for `name`
    # in C, where a KeyboardInterrupt within the property would be lost; the
    # graph of that name lives as long as `_graph`.
    self._captured = self._graph.captured_inputs
    self._output_types = self._graph.output_dtypes
    self._named = python_types.SimpleNamespace(name=self._graph.name)
