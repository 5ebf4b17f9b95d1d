"""The table of gradients in a real Reverb server, and the learner's intake."""

import functools
import threading

import numpy as np
import pytest
import reverb

from impala_tf import config as config_lib
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.comms import reverb_calls
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import a3c_workers
from impala_tf.roles import shared_parameters
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import interfaces
from tests.fixtures import programs

_SIZE = 5
_CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(algorithm='a3c', total_frames=100),
    environment=config_lib.EnvironmentConfig(level='catch'),
    agent=config_lib.AgentConfig(torso='mlp', hidden_size=16),
    impala=config_lib.ImpalaConfig(correction='none'),
    optimizer=config_lib.OptimizerConfig(learning_rate=0.05, epsilon=0.1),
    asynchronous=config_lib.AsyncConfig(num_workers=1))


class _Fetcher:
  frames = 30

  def fetch(self):
    return 7


def _contribution(number, name='loss'):
  return links.Contribution(
      np.full(_SIZE, number, np.float32), worker=f'worker {number}',
      slot=number % 3, version=number, num_frames=20,
      metrics={'gradient_norm': 0.1 * number, name: 1 / 3},
      episode={'episode_return': -1., 'episode_steps': 9} if number % 2 else {})


@pytest.fixture(name='server')
def _server():
  return queue_lib.make_server([links.make_table(_SIZE)], None)


def _address(server):
  return f'localhost:{server.port}'


def test_contributions_arrive_whole_and_in_their_order(server):
  """Their metrics have texts of any length."""
  link = links.TableLink(_address(server), _Fetcher())
  assert link.pull() == (30, 7, 0)
  sent = [_contribution(i, 'x' * (1 + 7 * i)) for i in range(8)]
  for contribution in sent:
    link.push(contribution)
  arrived = links.contributions(_address(server))
  for one in sent:
    other = next(arrived)
    np.testing.assert_array_equal(one.gradient, other.gradient)
    assert one._replace(gradient=None) == other._replace(gradient=None)


@pytest.mark.slow
def test_full_queue_makes_workers_wait_for_the_learner(server):
  link = links.TableLink(_address(server), _Fetcher())
  for number in range(8):
    link.push(_contribution(number))
  ninth = threading.Thread(
      target=link.push, args=[_contribution(8)], daemon=True)
  ninth.start()
  ninth.join(timeout=2.)  # Longer than one deadline of a flush.
  assert ninth.is_alive()
  client = reverb.Client(_address(server))
  assert reverb_calls.server_info(client)['gradients'].current_size == 8
  arrived = links.contributions(_address(server))
  assert [next(arrived).version for _ in range(9)] == list(range(9))
  ninth.join(timeout=60.)
  assert not ninth.is_alive()


# The intake.


_SEGMENTS = 12


class _Learner:
  """A learner's memory, tables and intake, without its loop."""

  def __init__(self, run_dir, apply=None):
    self.parts = shared_parameters.Learner(_CONFIG, str(run_dir))
    self.store = self.parts.store
    self._server = queue_lib.make_server(
        [*weights.make_tables(self.parts.server.agent.published_variables),
         links.make_table(self.store.parameters.size)], None)
    self.address = f'localhost:{self._server.port}'
    store = store_lib.find([self.store.table_name])
    publisher = weights.Publisher(
        self.store.parameters.copy,
        lambda version: self.store.counts.num_frames,
        [weights.Table(self.address).write])
    publisher.publish(0)
    self.check_intake = links.start_intake(
        self.address, store, apply or links.make_apply(_CONFIG, store),
        publisher, _CONFIG.experiment.total_frames)

  def wait_for_updates(self, number):
    programs.wait_until(
        lambda: self.store.counts.num_updates >= number, 'updates')
    self.check_intake()

  def contribution(self, **facts):
    return links.Contribution(
        np.ones(self.store.parameters.size, np.float32), worker='worker 0',
        slot=0, version=0, num_frames=5, metrics={'gradient_norm': 1.},
        episode={})._replace(**facts)

  def link(self):
    return links.TableLink(self.address, fetcher=None)


class _UpToDate:
  """A fetcher that waits for the parameters after all that was pushed."""

  def __init__(self, fetcher):
    self._fetcher = fetcher
    self._pushed = 0

  @property
  def frames(self):
    return self._fetcher.frames

  def fetch(self):
    programs.wait_until(
        lambda: self._fetcher.fetch() == self._pushed, 'new parameters')
    self._pushed += 1
    return self._pushed - 1


def _play(make_link):
  workers = a3c_workers.make_workers(
      _CONFIG, make_link, task=0, num_processes=1, seed=0)
  for _ in range(_SEGMENTS):
    workers.run_segment()
  workers.close()


def test_table_gives_the_numbers_of_shared_memory(tmp_path):
  parts = shared_parameters.Learner(_CONFIG, str(tmp_path / 'memory'))
  _play(functools.partial(links.MemoryLink, _CONFIG, parts.store))
  learner = _Learner(tmp_path / 'table')

  def make_link(agent, target_agent):
    assert target_agent is None
    fetcher = weights.Fetcher(learner.address, agent.published_variables)
    return links.TableLink(learner.address, _UpToDate(fetcher))

  fresh = learner.store.parameters.copy()
  _play(make_link)
  learner.wait_for_updates(_SEGMENTS)
  store = learner.store
  assert store.counts == parts.store.counts
  assert store.counts[:2] == (54, _SEGMENTS)
  assert (fresh != store.parameters).any()
  np.testing.assert_array_equal(store.parameters, parts.store.parameters)
  np.testing.assert_array_equal(store.slots[0], parts.store.slots[0])
  assert store.new_records(0) == parts.store.new_records(0)
  assert [record['lag'] for record in store.new_records(0)[0]] == (
      [0] * _SEGMENTS)


@pytest.mark.slow
def test_intake_refuses_what_is_not_finite_and_ends_with_the_run(tmp_path):
  learner = _Learner(tmp_path)
  before = learner.store.parameters.copy()
  link = learner.link()
  link.push(learner.contribution(
      gradient=np.full(before.size, np.nan, np.float32),
      metrics={'gradient_norm': float('nan')}))
  learner.wait_for_updates(1)
  np.testing.assert_array_equal(learner.store.parameters, before)
  link.push(learner.contribution())
  # A learner that was resumed has not got so far.
  link.push(learner.contribution(version=1000, num_frames=90))
  learner.wait_for_updates(3)
  assert (learner.store.parameters < before).all()
  records = learner.store.new_records(0)[0]
  assert [record['lag'] for record in records] == [0, 1, 0]
  after = learner.store.parameters.copy()
  for _ in range(2):  # The last is left in the queue.
    link.push(learner.contribution())
  client = reverb.Client(learner.address)
  programs.wait_until(lambda: reverb_calls.server_info(client)[
      'gradients'].current_size < 2, 'the end of the intake')
  learner.check_intake()
  assert learner.store.counts[:2] == (100, 3)
  np.testing.assert_array_equal(learner.store.parameters, after)


def test_loop_hears_of_an_intake_that_failed(tmp_path):
  def fail(contribution):
    raise ValueError(f'slot {contribution.slot}')

  learner = _Learner(tmp_path, fail)
  learner.link().push(learner.contribution())
  with pytest.raises(RuntimeError, match='applying gradients failed'):
    learner.parts.learn(control_lib.LoopControl(), interfaces.Reports(),
                        on_poll=learner.check_intake)
