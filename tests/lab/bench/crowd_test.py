"""Thin actors fetch parameters, and the kernel counts the bytes."""

import pickle

import pytest

from impala_tf import config as config_lib
from impala_tf.core import experiment
from lab.bench import crowd
from tests.fixtures import programs


@pytest.mark.slow
def test_what_connections_have_sent_is_counted():
  # In a process that has no others.
  program = (
      'import socket\n'
      'from lab.bench import crowd\n'
      'with socket.create_server(("127.0.0.1", 0)) as server:\n'
      '  one = socket.create_connection(server.getsockname())\n'
      '  other, _ = server.accept()\n'
      '  before = crowd.tcp_bytes()\n'
      '  one.sendall(b"x" * 12_345)\n'
      '  left = 12_345\n'
      '  while left:\n'
      '    left -= len(other.recv(left))\n'
      '  after = crowd.tcp_bytes()\n'
      'print(after[0] - before[0], after[1] - before[1])\n')
  with programs.running('-c', program) as process:
    out, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert out.split() == ['12345', '12345'], errors


@pytest.mark.slow
def test_parameters_are_those_that_the_learner_publishes(tmp_path):
  config = config_lib.Config(
      environment=config_lib.EnvironmentConfig(level='catch'),
      agent=config_lib.AgentConfig(
          torso='mlp', hidden_size=4, normalise_observations=True),
      actor=config_lib.ActorConfig(num_actors=1, num_envs=2),
      learner=config_lib.LearnerConfig(batch_size=2, unroll_length=2))
  crowd.record(config, str(tmp_path / 'recorded'))
  _, shapes = pickle.loads((tmp_path / 'recorded').read_bytes())
  agent = experiment.make_agent(config, experiment.make_environment(config))
  assert shapes == [tuple(v.shape) for v in agent.published_variables]
