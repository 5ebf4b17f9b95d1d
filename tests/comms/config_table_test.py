"""Peers get the config of their learner, once it is published."""

import socket

import pytest

from impala_tf.comms import config_table
from impala_tf.core import queue as queue_lib
from tests.fixtures import configs


def test_config_is_waited_for_and_arrives_as_it_is():
  config = configs.changed_everywhere()
  server = queue_lib.make_server([config_table.make_table(config)], None)
  address = f'localhost:{server.port}'
  causes = []

  def poll(cause):
    causes.append(cause)
    if len(causes) == 1:
      config_table.publish(address, config)

  assert config_table.wait_for_config(address, poll) == config
  assert 'not yet ready' in causes[0]


@pytest.mark.slow
def test_server_of_something_else_does_not_answer():

  def poll(cause):
    raise TimeoutError(cause)

  with socket.create_server(('localhost', 0)) as server:
    with pytest.raises(TimeoutError, match='does not answer'):
      config_table.wait_for_config(f'localhost:{server.getsockname()[1]}', poll)
