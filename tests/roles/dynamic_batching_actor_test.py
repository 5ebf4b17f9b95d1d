"""The actor that takes what is ready, against the one that waits for all."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import config
from impala_tf import types
from impala_tf.agents import agent as agent_lib
from impala_tf.core import actor as actor_lib
from impala_tf.envs import env_processes
from impala_tf.envs import gym
from impala_tf.maths import distributions
from impala_tf.roles import dynamic_batching_actor
from tests.fixtures import locks
from tests.fixtures import worker_environments

E, T, STACK, SEED = 4, 5, 3, 11
NUM_UNROLLS = 4  # Of each environment.
STEP = .01  # Of parameters. Sines of large logits would depend on rounding.


class Writer:
  """A writer that keeps unrolls by environment, numbered by `level_index`."""

  def __init__(self):
    self.unrolls = collections.defaultdict(list)
    self.order = []
    self.pending = []

  def write(self, unroll):
    number = int(unroll.unroll.level_index)
    self.unrolls[number].append(tf.nest.map_structure(np.copy, unroll.unroll))
    self.order.append(number)

  def flush(self, max_pending=0):
    self.pending.append(max_pending)


class Fetcher:
  """A fetcher of other parameters every time, unless they are to stay."""

  def __init__(self, agent, stays=False):
    self._agent = agent
    self._stays = stays
    self.num_fetched = 0

  def fetch(self):
    self.num_fetched += 1
    if self._stays:
      return 0
    for v in self._agent.trainable_variables:
      v.assign_add(tf.fill(v.shape, STEP))
    return 100 + self.num_fetched


def _parts(environment, use_lstm=True, stays=False):
  """Makes the arguments of both kinds of actor."""
  channels = environment.side_channel_specs()._asdict()
  lengths = {name: spec.shape[0] if spec else 0
             for name, spec in channels.items()}
  tf.random.set_seed(2)
  agent = agent_lib.Agent(
      distributions.of_actions(environment.action_spec()), config.AgentConfig(
          torso='mlp', use_lstm=use_lstm, hidden_size=8, lstm_size=4,
          instruction_length=lengths['instruction']))
  agent.build(environment.observation_spec(), lengths['features'],
              bool(lengths['action_mask']))
  spec = types.unroll_spec(
      environment.observation_spec(), environment.frame_stack,
      environment.action_spec(), agent.distribution.num_logits,
      agent.initial_state(1), T, channels)
  return agent, environment, Writer(), Fetcher(agent, stays), spec, SEED


def _gym(env_id):
  env = gym.GymEnvironment(env_id, E, SEED)
  env.level_index = np.arange(E, dtype=np.int32)
  return env


_STACKS = functools.partial(worker_environments.ticking, frame_stack=STACK)
# In workers one by one, and all together.
GAMES = {
    'cart_pole': (functools.partial(
        worker_environments.gym_game, 'CartPole-v1', SEED),
                  lambda: _gym('CartPole-v1')),
    'locks': (functools.partial(
        worker_environments.gym_game, f'{locks.MODULE}:Locks-v0', SEED),
              lambda: _gym('Locks-v0')),
    'frames': (worker_environments.ticking,
               lambda: worker_environments.Ticking(E)),
    'stacks': (_STACKS,
               lambda: worker_environments.Ticking(E, frame_stack=STACK)),
}


@pytest.fixture
def fixed_policy(monkeypatch):
  """Has policies depend neither on chance nor on the batch."""
  monkeypatch.setattr(
      distributions.Categorical, 'sample',
      # The sine makes it choose now this, now that.
      lambda self, logits, seed: tf.argmax(
          tf.sin(30. * logits), axis=-1, output_type=tf.int32))
  monkeypatch.setattr(
      distributions.MultiCategorical, 'sample',
      lambda self, logits, seed: tf.stack([
          tf.argmax(choice, axis=-1, output_type=tf.int32)
          for choice in tf.split(logits, self.nvec, axis=-1)], axis=-1))


def _assert_equal_unrolls(writer, expected, rtol=1e-5):
  """Checks that each environment has sent the same unrolls, as far as both."""
  for number in range(E):
    for unroll, wanted in zip(writer.unrolls[number], expected.unrolls[number]):
      tf.nest.assert_same_structure(unroll, wanted)
      for x, y in zip(tf.nest.flatten(unroll), tf.nest.flatten(wanted)):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.parametrize('game, use_lstm, num_processes', [
    ('stacks', True, 2), *(pytest.param(*game, marks=pytest.mark.slow)
                           for game in (
        ('cart_pole', False, E), ('locks', True, 2), ('frames', True, 3)))])
def test_unrolls_are_those_of_lock_step(
    start_workers, fixed_policy, game, use_lstm, num_processes):
  del fixed_policy
  make, make_all = GAMES[game]
  parts = _parts(make_all(), use_lstm, stays=True)
  lock_step, expected = actor_lib.Actor(*parts), parts[2]
  for _ in range(NUM_UNROLLS):
    lock_step.run_unroll()
  parts = _parts(start_workers(make, E, num_processes), use_lstm, stays=True)
  writer = parts[2]
  dynamic = dynamic_batching_actor.DynamicActor(*parts)
  while (len(writer.unrolls) < E
         or min(map(len, writer.unrolls.values())) < NUM_UNROLLS):
    dynamic.run_unroll()
  _assert_equal_unrolls(writer, expected)
  assert len({action for unroll in writer.unrolls[0] for action in
              unroll.agent_outputs.action.ravel().tolist()}) > 1


def test_a_call_fetches_once_and_sends_as_many_unrolls_as_environments(
    start_workers):
  _, _, writer, fetcher, *_ = parts = _parts(start_workers(_STACKS, E, E))
  actor = dynamic_batching_actor.DynamicActor(*parts)
  for call in range(1, 9):
    actor.run_unroll()
    assert fetcher.num_fetched == call
    # Several may come together.
    assert call * E <= len(writer.order) < (call + 1) * E
  assert set(writer.pending) == {E // 2}
  steps = actor.batch_sizes @ np.arange(E + 1)
  # The very first step of each environment, and unrolls under way.
  assert 0 <= steps - E - len(writer.order) * T < E * T
  assert actor.batch_sizes[0] == 0


def test_new_parameters_act_from_then_on_and_later_unrolls_have_their_version(
    start_workers):
  """Logits show which parameters acted, and V-trace goes by logits.

  With one environment no other unrolls end in between.
  """
  parts = _parts(
      start_workers(worker_environments.ticking, 1, 1), use_lstm=False)
  agent, _, writer, _, _, _ = parts
  initial = [v.numpy() for v in agent.trainable_variables]
  actor = dynamic_batching_actor.DynamicActor(*parts)
  for _ in range(4):
    actor.run_unroll()
  # An unroll begins with the end of the one before, in the call that sends it:
  # the first two are of the first call's parameters.
  versions = [int(u.policy_version) for u in writer.unrolls[0]]
  assert versions == [101, 101, 102, 103]
  third = writer.unrolls[0][2]
  step = tf.function(agent.step)
  for t in range(T + 1):
    # Chosen in the second call, the last of all steps of the second unroll, and
    # in the third.
    for v, value in zip(agent.trainable_variables, initial):
      v.assign(value + (2 if t == 0 else 3) * STEP)
    seen = types.EnvOutput(
        *(tf.constant(field[t:t + 1]) for field in third.env_outputs))
    output, _ = step(seen, (), tf.constant([0, 0]))
    np.testing.assert_allclose(
        third.agent_outputs.policy_logits[t], output.policy_logits[0],
        rtol=1e-4)


def test_slow_environment_holds_up_nobody(start_workers, tmp_path):
  gate = tmp_path / 'gate'
  parts = _parts(start_workers(functools.partial(
      worker_environments.Faulty, str(gate), 1), E, E))
  writer = parts[2]
  actor = dynamic_batching_actor.DynamicActor(*parts)
  for _ in range(3):
    actor.run_unroll()
  assert len(writer.order) >= 3 * E and set(writer.order) == {0, 2, 3}
  assert actor.batch_sizes[E] <= 3  # It has shown three rows.
  gate.touch()
  while 1 not in writer.unrolls:
    actor.run_unroll()
  # It has waited within its first unroll, which is whole all the same.
  np.testing.assert_array_equal(
      writer.unrolls[1][0].env_outputs.observation[:, 0, 1], range(T + 1))


def test_one_graph_serves_all_batch_sizes(start_workers, monkeypatch):
  traced = []
  step = agent_lib.Agent.step

  def counted(self, *arguments):
    traced.append(arguments[0].observation.shape)
    return step(self, *arguments)

  monkeypatch.setattr(agent_lib.Agent, 'step', counted)
  actor = dynamic_batching_actor.DynamicActor(
      *_parts(start_workers(_STACKS, E, E)))
  while np.count_nonzero(actor.batch_sizes) < 2:
    actor.run_unroll()
  assert len(traced) == 1


@pytest.mark.parametrize('game, use_lstm, num_processes', [
    ('cart_pole', True, 2), ('stacks', True, E), ('frames', False, 3)])
def test_unrolls_are_those_of_an_actor_that_acts_anew(
    start_workers, fixed_policy, game, use_lstm, num_processes):
  """New parameters act from x_0 on in every environment, and not before."""
  del fixed_policy
  make, make_all = GAMES[game]
  parts = _parts(make_all(), use_lstm)
  lock_step, expected = actor_lib.Actor(*parts, acts_anew=True), parts[2]
  parts = _parts(start_workers(make, E, num_processes), use_lstm)
  writer = parts[2]
  together = dynamic_batching_actor.SynchronousDynamicActor(*parts)
  for k in range(NUM_UNROLLS):
    lock_step.run_unroll()
    together.run_unroll()
    assert sorted(writer.order[k * E:]) == list(range(E))
  assert set(writer.pending) == {0}
  _assert_equal_unrolls(writer, expected, rtol=1e-4)
  steps = together.batch_sizes @ np.arange(E + 1)
  assert steps == NUM_UNROLLS * E * (T + 1)  # Twice where one ends.


def test_fault_ends_the_actor(start_workers):
  actor = dynamic_batching_actor.DynamicActor(*_parts(start_workers(
      functools.partial(worker_environments.Faulty, 'fail', 2), E)))
  with pytest.raises(env_processes.WorkerError, match='environment 2 '):
    actor.run_unroll()
