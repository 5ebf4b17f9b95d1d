"""Workers of one process, which in turn play a segment and learn from it.

Algorithms 1, S2 and S3 of Mnih et al. 2016 (arXiv:1602.01783v2). K workers
share P processes, and take turns within each. Every segment begins with a copy
of the shared parameters, so that one agent with one graph serves all workers of
a process; each worker owns only its environment, memory and exploration.
`links` hides where parameters come from and gradients go.
"""

from typing import Any, Callable, Sequence

import dm_env
import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.a3c import links
from impala_tf.agents import acting
from impala_tf.agents import agent as agent_lib
from impala_tf.algorithms import table as algorithms
from impala_tf.core import actor as actor_lib
from impala_tf.core import learner as learner_lib
from impala_tf.envs import environment as environment_lib
from impala_tf.maths import n_step
from impala_tf.maths import updates

_FIRST = int(dm_env.StepType.FIRST)
# Whole episodes have any length, and each length traces a graph: they are
# padded to this or to the next power of two.
_MIN_EPISODE_STEPS = 16


class SegmentBuffer:
  """A buffer that assembles an unroll [T+1, 1] step by step.

  A segment that ends early is padded with steps that begin an episode after a
  time limit: no transition into them is learned from or counts in means.
  """

  def __init__(self, max_steps: int | None):
    """Sets T to `max_steps`; None: episode length, padded to a power of two."""
    self._max_steps = max_steps
    self._rows: list[Any] = []
    self._core_state: Any = ()
    self._input_buffers: dict[int, Any] = {}  # By number of rows.

  def begin(self, core_state: Any) -> None:
    """Begins a segment; `core_state` is the LSTM's before x_0, [1, ...]."""
    self._core_state = core_state
    self._rows = []

  def record(self, env_output: types.EnvOutput,
             agent_output: types.AgentOutput) -> None:
    """Adds a copy of x_t with the action chosen there, leading [1] each."""
    self._rows.append(tf.nest.map_structure(
        np.copy, (env_output, agent_output)))

  @property
  def num_steps(self) -> int:
    """Number of transitions in the segment so far."""
    return len(self._rows) - 1

  def unroll(self) -> types.Unroll:
    """Returns the padded segment as an unroll; the next segment overwrites it.

    Versions and levels are empty: the policy that acted learns, on one level.
    """
    num_rows = 1 + (self._max_steps or max(
        _MIN_EPISODE_STEPS, 1 << (self.num_steps - 1).bit_length()))
    last, agent_output = self._rows[-1]
    padding = last._replace(
        step_type=np.full_like(last.step_type, _FIRST),
        reward=np.zeros_like(last.reward),
        discount=np.ones_like(last.discount)), agent_output
    arrays = tf.nest.map_structure(
        lambda *values: np.stack(values), *self._rows,
        *[padding] * (num_rows - len(self._rows)))
    if num_rows not in self._input_buffers:
      self._input_buffers[num_rows] = tf.nest.map_structure(
          lambda array: acting.InputBuffer(array, num_rows), arrays)
    env_outputs, agent_outputs = tf.nest.map_structure(
        lambda buffer, array: buffer.tensor(array, num_rows),
        self._input_buffers[num_rows], arrays)
    return types.Unroll(env_outputs, agent_outputs, self._core_state,
                        policy_version=(), level_index=())


class Worker:
  """An A3C worker: one environment and the agent's core state in it.

  `env_output` is x_t, leading [1], `core_state` the memory before it, tensors
  [1, ...]. `agent_output` is the choice at x_t, None if there is none yet, and
  `next_core_state` the memory after it. The worker's epsilon is annealed to
  `final_epsilon`. For `slot` see `links.Contribution`.
  """

  def __init__(self, name: str, slot: int,
               environment: environment_lib.BatchedEnvironment,
               core_state: Any, seed: int):
    """Starts the environment; `seed` is for drawing final epsilons."""
    self.name = name
    self.slot = slot
    self.environment = environment
    self._counter = acting.EpisodeCounter(1, environment.reward_scale)
    self._rng = np.random.default_rng(seed)
    self.env_output = self._counter.env_output(
        environment.reset(), environment.side_channels)
    self.core_state = self.next_core_state = core_state
    self.agent_output: types.AgentOutput | None = None
    self.final_epsilon = n_step.draw_final_epsilon(self._rng)

  def step(self) -> None:
    assert self.agent_output is not None  # A choice comes before each step.
    timestep = self.environment.step(self.agent_output.action)
    self.env_output = self._counter.env_output(
        timestep, self.environment.side_channels)
    self.core_state, self.agent_output = self.next_core_state, None
    if self.has_ended:
      self.final_epsilon = n_step.draw_final_epsilon(self._rng)

  @property
  def has_ended(self) -> bool:
    """Whether the last step ended an episode, so that x_t begins another."""
    return bool(self.env_output.step_type[0] == _FIRST)

  @property
  def is_terminal(self) -> bool:
    """Whether a segment ends at x_t: its discount is 0, or an episode ended."""
    return self.has_ended or not self.env_output.discount[0]


class WorkersInTurn:
  """The workers of one process, which take turns; `stopwatch` times phases."""

  def __init__(self, config: config_lib.Config, link: links.Link,
               agent: agent_lib.Agent, workers: Sequence[Worker],
               gradients_fn: Callable[[types.Unroll], learner_lib.Gradients],
               seed: int):
    """Stores the parts; `seed` is for sampling actions.

    `gradients_fn` maps an unroll [T+1, 1] to the agent's gradients.
    """
    self._link = link
    self._agent = agent
    self._workers = workers
    self._turn = 0
    self._gradients_fn = gradients_fn
    self._options = config.asynchronous
    self._max_gradient_norm = config.optimizer.max_gradient_norm
    algorithm = algorithms.get(config)
    # Whether the agent has an epsilon, as all that learn values.
    self._explores = algorithm.needs_target_agent
    # Whether a worker chooses an action at a segment's last step and continues
    # with it, since Sarsa's target needs it. Else the new parameters choose a
    # segment's first action.
    self._keeps_last_action = algorithm.needs_last_action
    self._policy = acting.Policy(agent, 1, seed)
    self._buffer = SegmentBuffer(self._options.max_segment_steps)
    self._step = tf.function(self._compute_step, autograph=False)
    self._metric_names: list[str] = []  # Noted while the step is traced.
    self.stopwatch = actor_lib.Stopwatch()

  def run_segment(self) -> None:
    """Plays a segment with the next worker, and sends its gradient."""
    lap = self.stopwatch.lap
    lap()  # Time between calls is not billed.
    worker = self._workers[self._turn]
    self._turn = (self._turn + 1) % len(self._workers)
    counts = self._link.pull()
    lap('weights')
    self._explore(worker, counts.num_frames)
    self._play(worker, counts.num_frames)
    lap('assembly')
    gradient, numbers = (
        tensor.numpy() for tensor in self._step(self._buffer.unroll()))
    lap('gradients')
    self._link.push(self._contribution(
        worker, counts.num_updates, gradient, numbers))
    lap('write')

  def close(self) -> None:
    for worker in self._workers:
      worker.environment.close()

  def _explore(self, worker: Worker, num_frames: int) -> None:
    if self._explores:
      self._agent.epsilon.assign(n_step.annealed_epsilon(
          worker.final_epsilon, num_frames,
          self._options.epsilon_anneal_frames))

  def _play(self, worker: Worker, num_frames: int) -> None:
    lap = self.stopwatch.lap
    self._buffer.begin(worker.core_state)
    agent_output = worker.agent_output or self._act(worker)
    self._buffer.record(worker.env_output, agent_output)
    is_over = False
    while not is_over:
      lap('assembly')
      worker.step()
      lap('environment')
      is_over = worker.is_terminal or (
          self._buffer.num_steps + 1 == self._options.max_segment_steps)
      if worker.has_ended:  # The next action is the next episode's first.
        self._explore(worker, num_frames)
      if not is_over or self._keeps_last_action:
        agent_output = self._act(worker)
        lap('inference')
      # If no action was chosen at x_T, the one before stands in its place: the
      # loss does not look at it.
      self._buffer.record(worker.env_output, agent_output)

  def _act(self, worker: Worker) -> types.AgentOutput:
    self._policy.core_state = worker.core_state
    agent_output = self._policy.act(worker.env_output)
    worker.agent_output = agent_output
    worker.next_core_state = self._policy.core_state
    return agent_output

  def _compute_step(self, unroll: types.Unroll):
    """Returns a segment's gradient, clipped, float32 [P]; and its metrics."""
    gradients = self._gradients_fn(unroll)
    values, norm = updates.clip_by_global_norm(
        gradients.values, self._max_gradient_norm)
    metrics = {'gradient_norm': norm, **gradients.metrics}
    self._metric_names = list(metrics)
    return (tf.concat([tf.reshape(value, [-1]) for value in values], axis=0),
            tf.stack([tf.reshape(value, []) for value in metrics.values()]))

  def _contribution(self, worker: Worker, version: int, gradient: np.ndarray,
                    numbers: np.ndarray) -> links.Contribution:
    metrics = dict(zip(self._metric_names, map(float, numbers)))
    if (self._buffer.num_steps == 1 and worker.has_ended
        and worker.env_output.discount[0]):
      # The only step was the reset after a time limit, which does not count:
      # the gradient is zero, and there are no means.
      metrics = {'gradient_norm': metrics['gradient_norm']}
    if self._explores:
      metrics['exploration'] = float(self._agent.epsilon)
    episode = {
        'episode_return': float(worker.env_output.episode_return[0]),
        'episode_steps': int(worker.env_output.episode_steps[0])
    } if worker.has_ended else {}
    return links.Contribution(
        gradient, worker.name, worker.slot, version,
        self._buffer.num_steps * worker.environment.frames_per_step, metrics,
        episode)
