"""Peers get the config of their learner, once it is published."""

import socket

import pytest

from impala_tf import config as config_lib
from impala_tf.comms import config_table
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from tests.fixtures import configs
from tests.fixtures import unrolls


def _serve(config):
  return queue_lib.make_server([
      config_table.make_table(config),
      *weights.make_tables(unrolls.variables())], None)


def test_config_is_waited_for_and_arrives_as_it_is():
  config = configs.changed_everywhere()
  server = _serve(config)
  address = f'localhost:{server.port}'
  causes = []

  def poll(cause):
    causes.append(cause)
    if len(causes) == 1:
      config_table.publish(address, config)

  assert config_table.wait_for_config(address, poll) == config
  assert 'not yet ready' in causes[0]
  server.stop()


@pytest.mark.slow
def test_server_that_is_no_learner_is_not_taken_for_one():

  def poll(cause):
    raise TimeoutError(cause)

  with socket.create_server(('localhost', 0)) as server:
    with pytest.raises(TimeoutError, match='does not answer'):
      config_table.wait_for_config(
          f'localhost:{server.getsockname()[1]}', poll)


def test_who_follows_one_run_does_not_take_parameters_of_another():
  mine = config_lib.Config()
  server = _serve(mine)
  address = f'localhost:{server.port}'
  learners = unrolls.variables()
  weights.Publisher(weights.make_snapshot(learners), lambda version: 0,
                    [weights.Table(address).write]).publish(3)
  fetcher = weights.Fetcher(
      address, unrolls.variables(), config_table.table_name(mine))
  assert fetcher.fetch() == 3
  others = weights.Fetcher(address, unrolls.variables(),
                           config_table.table_name(configs.changed_everywhere()))
  with pytest.raises(ConnectionError, match='of another config now'):
    others.fetch()
  server.stop()
