"""Gradients that the learner takes from a real Reverb server, and applies."""

import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.a3c import gradient_intake
from impala_tf.a3c import gradient_table
from impala_tf.a3c import links
from impala_tf.a3c import store as store_lib
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.roles import a3c_learner
from impala_tf.roles import a3c_workers
from impala_tf.runtime import control as control_lib
from tests.fixtures import programs

_SEGMENTS = 12
_CONFIG = config_lib.Config(
    experiment=config_lib.ExperimentConfig(
        algorithm='a3c', total_frames=100),
    environment=config_lib.EnvironmentConfig(level='catch'),
    agent=config_lib.AgentConfig(torso='mlp', hidden_size=16),
    impala=config_lib.ImpalaConfig(correction='none'),
    optimizer=config_lib.OptimizerConfig(learning_rate=0.05, epsilon=0.1),
    asynchronous=config_lib.AsyncConfig(num_workers=1))


class _Learner:
  """A learner's memory, tables and intake, without its loop.

  Attributes:
    store: the learner's memory.
    address: 'host:port' of its server.
    intake: its intake.
  """

  def __init__(self, run_dir, apply=None):
    self.parts = a3c_learner.make(_CONFIG, str(run_dir))
    self.store = self.parts.store
    self._server = queue_lib.make_server(
        [*weights.make_tables(self.parts.server.agent.published_variables),
         gradient_table.make_table(self.store.parameters.size)], None)
    self.address = f'localhost:{self._server.port}'
    publisher = a3c_learner.make_publisher(self.store, self.address)
    publisher.publish(self.store.counts.num_updates)
    store = store_lib.find([self.store.table_name])
    self.intake = gradient_intake.Intake(
        self.address, store,
        apply or a3c_workers.make_applier(_CONFIG, store), publisher,
        _CONFIG.experiment.total_frames)

  def wait_for_updates(self, number):
    programs.wait_until(
        lambda: self.store.counts.num_updates >= number, 'updates')
    self.intake.check()

  def contribution(self, **facts):
    return links.Contribution(
        np.ones(self.store.parameters.size, np.float32), worker='worker 0',
        slot=0, version=0, num_frames=5, metrics={'gradient_norm': 1.},
        episode={})._replace(**facts)

  def link(self):
    return gradient_table.TableLink(self.address, fetcher=None)


class _UpToDate:
  """A fetcher that waits for the parameters after all that was pushed."""

  def __init__(self, fetcher, learner):
    self._fetcher = fetcher
    self._learner = learner
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
  parts = a3c_learner.make(_CONFIG, str(tmp_path / 'memory'))
  _play(a3c_workers.memory_link(_CONFIG, parts.store))
  learner = _Learner(tmp_path / 'table')

  def make_link(agent, target_agent):
    assert target_agent is None
    fetcher = weights.Fetcher(learner.address, agent.published_variables)
    return gradient_table.TableLink(
        learner.address, _UpToDate(fetcher, learner))

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
  assert [record['lag'] for record in store.new_records(0).records] == (
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
  records = learner.store.new_records(0).records
  assert [record['lag'] for record in records] == [0, 1, 0]
  after = learner.store.parameters.copy()
  link.push(learner.contribution())
  programs.wait_until(
      lambda: not learner.intake._thread.is_alive(), 'the end of the thread')
  learner.intake.check()
  assert learner.store.counts[:2] == (100, 3)
  np.testing.assert_array_equal(learner.store.parameters, after)


def test_loop_hears_of_an_intake_that_failed(tmp_path):
  def fail(contribution):
    raise ValueError(f'slot {contribution.slot}')

  learner = _Learner(tmp_path, fail)
  reader = learner.parts.reader(check=learner.intake.check)
  control = control_lib.LoopControl()
  assert reader.poll(control) is None
  learner.link().push(learner.contribution())
  with pytest.raises(RuntimeError, match='applying gradients failed'):
    programs.wait_until(lambda: reader.poll(control), 'a failure')
