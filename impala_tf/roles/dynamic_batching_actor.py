"""Actors with dynamic batching: inference serves environments that are ready.

Dynamic batching, as in section 5.1 of Espeholt et al. 2018 on a single machine:
environments step by themselves, and each forward pass serves all that have a
new observation by then.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from impala_tf import types
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.core import actor
from impala_tf.envs import env_processes
from impala_tf.envs import environment as environment_lib
from impala_tf.runtime import interfaces


class DynamicActor:
  """An actor that sends each environment's unroll as soon as it is complete.

  Environments are out of phase: new parameters come in the middle of unrolls,
  and act from then on, as on the published code's single machine. An unroll
  carries the version with which it began, its oldest. V-trace needs only the
  logits of each step.

  Attributes:
    stopwatch: see `actor.Actor`; environment is the time spent waiting until
      one is ready.
    batch_sizes: int64 [E+1], number of inferences by batch size.
  """

  def __init__(self, agent: agent_lib.Agent,
               environments: env_processes.Workers, writer: actor.Writer,
               fetcher: interfaces.Fetcher, spec: types.Unroll, seed: int):
    """Prepares the buffers; for the arguments see `actor.Actor`."""
    num_envs = environments.num_envs
    self._environments = environments
    self._writer = writer
    self._fetcher = fetcher
    self._policy = acting.Policy(agent, num_envs, seed, by_rows=True)
    self._counter = acting.EpisodeCounter(num_envs, environments.reward_scale)
    self._unroll_length = spec.env_outputs.reward.shape[0] - 1  # T
    self._buffer = actor.UnrollBuffer(spec, environments.level_index,
                                      environments.frame_stack)
    # Index of each environment's next row. The first is taken for the end of an
    # unroll, of which nobody hears.
    self._t = np.full(num_envs, self._unroll_length)
    self._has_begun = np.zeros(num_envs, bool)
    self._num_unrolls = 0  # Since the last E.
    self.stopwatch = actor.Stopwatch()
    self.batch_sizes = np.zeros(num_envs + 1, np.int64)

  def run_unroll(self) -> None:
    """Fetches parameters and plays until E more unrolls are sent.

    They come from whichever environments have played T steps by then. Raises
    as `actor.Actor.run_unroll` and `env_processes.Workers.recv` do.
    """
    version = self._fetch()
    while self._num_unrolls < self._environments.num_envs:
      rows, env_output = self._receive()
      core_state, agent_output = self._act(rows, env_output)
      # First of all, so that nobody waits for what follows.
      self._environments.send(rows, agent_output.action)
      self._record(version, rows, env_output, agent_output, core_state)
    self._num_unrolls -= self._environments.num_envs

  def _fetch(self) -> int:
    self.stopwatch.lap()  # Time between calls is not billed.
    version = self._fetcher.fetch()
    assert version is not None  # `Fetcher.wait` came first.
    self.stopwatch.lap('weights')
    return version

  def _receive(self, min_ready: int = 1) -> tuple[np.ndarray, types.EnvOutput]:
    rows, timestep = self._environments.recv(min_ready)
    self.stopwatch.lap('environment')
    return rows, self._counter.env_output(
        timestep, self._environments.side_channels, rows)

  def _act(self, rows: np.ndarray, env_output: types.EnvOutput
           ) -> tuple[Any, types.AgentOutput]:
    core_state = _select(self._policy.core_state, rows)
    agent_output = self._policy.act(env_output, rows)
    self.batch_sizes[len(rows)] += 1
    self.stopwatch.lap('inference')
    return core_state, agent_output

  def _record(self, version: int, rows: np.ndarray, env_output: types.EnvOutput,
              agent_output: types.AgentOutput, core_state: Any) -> None:
    """Records a step of environments `rows`; sends unrolls that are complete.

    An unroll's last step is the first of the next.
    """
    t = self._t[rows]
    self._buffer.record(t, env_output, agent_output, rows)
    self.stopwatch.lap('assembly')
    is_last = t == self._unroll_length
    self._send(rows[is_last & self._has_begun[rows]])
    if is_last.any():
      self._buffer.begin(version, _select(core_state, is_last), rows[is_last])
      self._buffer.record(0, _select(env_output, is_last),
                          _select(agent_output, is_last), rows[is_last])
      self._has_begun[rows] = True
    self._t[rows] = np.where(is_last, 1, t + 1)
    self.stopwatch.lap('assembly')

  def _send(self, rows: np.ndarray) -> None:
    if len(rows):
      self._num_unrolls += len(rows)
      self._write(rows)
      # To wait for each would hold up all environments; more would only grow
      # old while the learner is behind.
      self._writer.flush(max_pending=self._environments.num_envs // 2)
      self.stopwatch.lap('queue_full')

  def _write(self, rows: np.ndarray) -> None:
    for unroll in self._buffer.unrolls(rows):
      self._writer.write(unroll)
    self.stopwatch.lap('write')

  def close(self) -> None:
    self._environments.close()


class SynchronousDynamicActor(DynamicActor):
  """A dynamic actor whose environments all begin their unrolls together.

  The third form of batched A2C (section 5.1 of Espeholt et al. 2018): within an
  unroll no environment waits for another. One that has played T steps is held
  until all have and new parameters are there, which also act at its x_0.
  """

  def __init__(self, *args: Any, **kwargs: Any):
    super().__init__(*args, **kwargs)
    self._rows = np.arange(self._environments.num_envs, dtype=np.int32)
    self._x_0: types.EnvOutput | None = None  # Leading [E].
    # Core states before x_0; the policy goes on from those after it.
    self._core_state = tf.nest.map_structure(np.copy, self._policy.core_state)

  def run_unroll(self) -> None:
    """Fetches parameters, and plays and sends one unroll of each environment.

    Raises as `DynamicActor.run_unroll` does.
    """
    lap = self.stopwatch.lap
    version = self._fetch()
    if self._x_0 is None:  # All rows, of the environments' own resets.
      rows, env_output = self._receive(min_ready=len(self._rows))
      self._x_0 = _select(env_output, np.argsort(rows))
    self._begin(version, self._x_0)
    num_held = 0
    while num_held < len(self._rows):
      rows, env_output = self._receive()
      core_state, agent_output = self._act(rows, env_output)
      is_last = self._t[rows] == self._unroll_length
      self._environments.send(rows[~is_last], agent_output.action[~is_last])
      self._buffer.record(self._t[rows], env_output, agent_output, rows)
      self._t[rows] += 1
      lap('assembly')
      # These are held: their outputs and memory begin the next unroll.
      environment_lib.put_rows(
          (self._x_0, self._core_state), rows[is_last],
          _select((env_output, core_state), is_last))
      self._write(rows[is_last])
      num_held += np.count_nonzero(is_last)
    self._writer.flush()
    lap('queue_full')

  def _begin(self, version: int, x_0: types.EnvOutput) -> None:
    """Acts at every environment's x_0 and begins its unroll."""
    tf.nest.map_structure(np.copyto, self._policy.core_state, self._core_state)
    _, agent_output = self._act(self._rows, x_0)
    self._environments.send(self._rows, agent_output.action)
    self._buffer.begin(version, self._core_state)
    self._buffer.record(0, x_0, agent_output)
    self._t[:] = 1
    self.stopwatch.lap('assembly')


def _select(arrays: Any, rows: np.ndarray) -> Any:
  return tf.nest.map_structure(lambda array: array[rows], arrays)
