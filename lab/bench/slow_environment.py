"""Measures the cost of a slow environment, with and without dynamic batching.

    python -m lab.bench.slow_environment [--spin]

An actor plays environments of which one takes 20 times as long for a step as
the others, and the same number of fast ones only. It plays each set in its own
process, in worker processes that wait for each other at every step, and in
workers that do not, in turns. The network is the shallow one. There is no
learner: parameters stay the same, and unrolls are dropped.
"""

import functools
import sys
import time

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import env_processes
from impala_tf.envs import environment

_SHAPE = (84, 84, 4)
_NUM_ACTIONS = 6
_UNROLL_LENGTH = 20
_TIMEOUT_SECS = 60.
_PERCENTILES = (10, 50, 90)


class TimedEnvironment(environment.BatchedEnvironment):
  """Environments whose steps take a given time each, and show noise."""

  def __init__(self, step_secs, spin):
    num_envs = len(step_secs)
    super().__init__('timed', num_envs, environment.discrete(_NUM_ACTIONS),
                     specs.Array(_SHAPE, np.uint8))
    self._step_secs = step_secs
    self._spin = spin
    observation = np.random.default_rng(0).integers(
        256, size=(num_envs, *_SHAPE), dtype=np.uint8)
    self._row = self._first(observation)

  def reset(self):
    return self._row

  def _step(self, actions):
    for secs in self._step_secs:
      end = time.perf_counter() + secs
      if not self._spin:
        time.sleep(secs)
      while time.perf_counter() < end:
        pass
    return self._row._replace(
        step_type=np.full(self.num_envs, dm_env.StepType.MID, np.uint8))

  def render(self):
    raise NotImplementedError

  def close(self):
    pass


def _one_timed(step_secs, spin, number):
  return TimedEnvironment(step_secs[number:number + 1], spin)


class _Nobody:
  """A writer that drops unrolls, and a fetcher without parameters."""

  def write(self, unroll):
    pass

  def flush(self, max_pending=0):
    pass

  def fetch(self):
    return 0


class _WaitForAll:
  """Worker processes of which at least `min_ready` are waited for.

  Attributes:
    min_ready: number of environments that must be ready.
  """

  def __init__(self, environments):
    self._environments = environments
    self.min_ready = 1

  def __getattr__(self, name):
    return getattr(self._environments, name)

  def recv(self):
    return self._environments.recv(self.min_ready)


def _make_actors(step_secs, spin):
  """Returns two actors, in turn and dynamic, and the workers of the latter."""
  # Imported here, because workers import this module.
  from impala_tf import types
  from impala_tf.agents import agent as agent_lib
  from impala_tf.core import actor
  from impala_tf.core import dynamic_batching_actor
  from impala_tf.maths import distributions
  in_turn = TimedEnvironment(step_secs, spin)
  agent = agent_lib.Agent(
      distributions.of_actions(in_turn.action_spec()), config_lib.AgentConfig())
  agent.build(in_turn.observation_spec())
  spec = types.unroll_spec(
      in_turn.observation_spec(), 1, in_turn.action_spec(),
      agent.distribution.num_logits, agent.initial_state(1), _UNROLL_LENGTH)
  num_envs = len(step_secs)
  pool = _WaitForAll(env_processes.Workers(
      functools.partial(_one_timed, step_secs, spin), num_envs, num_envs,
      _TIMEOUT_SECS))
  return (
      actor.Actor(agent, in_turn, _Nobody(), _Nobody(), spec, seed=0),
      dynamic_batching_actor.DynamicActor(
          agent, pool, _Nobody(), _Nobody(), spec, seed=0),
      pool)


class _Case:
  """A set of environments, and its measurements."""

  def __init__(self, name, step_secs, spin):
    self.name = name
    self._num_envs = len(step_secs)
    self._in_turn, self._dynamic, self._pool = _make_actors(step_secs, spin)
    self.steps_per_sec = {}
    self.batch_sizes = np.zeros(self._num_envs + 1, np.int64)

  def measure(self, secs):
    """Measures each way of stepping for about `secs`."""
    self._note('in turn', self._in_turn,
               lambda: self._num_envs * _UNROLL_LENGTH, secs)
    for name, min_ready in (('all together', self._num_envs), ('dynamic', 1)):
      self._pool.min_ready = min_ready
      self._dynamic.run_unroll()
      before = self._dynamic.batch_sizes.copy()
      last = before.copy()

      def new_steps(last=last):
        steps = (self._dynamic.batch_sizes - last) @ np.arange(
            self._num_envs + 1)
        last[:] = self._dynamic.batch_sizes
        return steps

      self._note(name, self._dynamic, new_steps, secs)
    self.batch_sizes += self._dynamic.batch_sizes - before

  def _note(self, name, actor, new_steps, secs):
    steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + secs:
      actor.run_unroll()
      steps += new_steps()
    self.steps_per_sec.setdefault(name, []).append(
        steps / (time.perf_counter() - start))

  def close(self):
    self._pool.close()


def _show(fast, slow):
  print(f'{"steps/s (median)":26}{fast.name:>12}{slow.name:>12}{"ratio":>8}'
        f'{"vs. in turn":>13}')
  base = np.median(slow.steps_per_sec['in turn'])
  for name in fast.steps_per_sec:
    ratios = np.divide(slow.steps_per_sec[name], fast.steps_per_sec[name])
    rates = [np.median(case.steps_per_sec[name]) for case in (fast, slow)]
    print(f'{name:26}{rates[0]:12,.0f}{rates[1]:12,.0f}'
          f'{np.median(ratios):8.2f}{rates[1] / base:12.1f}x')
  for case in (fast, slow):
    sizes = np.repeat(np.arange(len(case.batch_sizes)), case.batch_sizes)
    print(f'inference batch, dynamic, {case.name}: mean {sizes.mean():.1f}; '
          + ', '.join(f'{p}% up to {np.percentile(sizes, p):.0f}'
                      for p in _PERCENTILES))


def _run():
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('--num_envs', type=int, default=16)
  parser.add_argument('--step_ms', type=float, default=1.)
  parser.add_argument('--slow_step_ms', type=float, default=20.)
  parser.add_argument('--spin', action='store_true',
                      help='steps keep a core busy; otherwise they sleep')
  parser.add_argument('--rounds', type=int, default=10)
  parser.add_argument('--seconds', type=float, default=2.,
                      help='of each measurement in a round')
  args = parser.parse_args()
  from impala_tf.runtime import tf_threads  # Imports TensorFlow.
  tf_threads.set_threads(1)
  step_secs = np.full(args.num_envs, args.step_ms / 1e3)
  fast = _Case('all fast', step_secs.copy(), args.spin)
  step_secs[0] = args.slow_step_ms / 1e3
  slow = _Case('one slow', step_secs, args.spin)
  for _ in range(args.rounds):
    for case in (fast, slow):
      case.measure(args.seconds)
  _show(fast, slow)
  fast.close()
  slow.close()


if __name__ == '__main__':
  sys.exit(program.run(_run))
