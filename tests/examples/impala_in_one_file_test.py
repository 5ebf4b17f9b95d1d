"""The program in one file: it learns Catch, and updates as the package does."""

import importlib.util
import re

import numpy as np
import pytest
import tensorflow as tf

from impala_tf import types
from impala_tf.core import experiment
from impala_tf.runs import gin_config
from tests.fixtures import programs

_PATH = programs.ROOT / 'examples' / 'impala_in_one_file.py'
_DEADLINE_SECS = 300.  # It takes a quarter of a minute on a quiet machine.
_NUM_UPDATES = 3
FIRST, MID = 0, 1


@pytest.fixture(scope='module')
def example():
  spec = importlib.util.spec_from_file_location(_PATH.stem, _PATH)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


@pytest.mark.slow
def test_program_learns_catch():
  with programs.running(_PATH) as process:
    output, errors = process.communicate(timeout=_DEADLINE_SECS)
  assert process.returncode == 0, errors
  returns = [float(number) for number in re.findall(r'return (\S+)', output)]
  assert returns[0] < -0.3 and returns[-1] >= 0.95, output


def _batch(example, seed):
  """Makes a batch of random steps for the program and for the package."""
  rng = np.random.default_rng(seed)
  shape = (example.UNROLL_LENGTH + 1, example.BATCH_SIZE)
  goes_on = rng.random(shape) < 0.8
  step = example.Step(
      reward=rng.normal(size=shape).astype(np.float32),
      discount=goes_on.astype(np.float32),
      observation=rng.normal(size=(*shape, *example.BOARD)).astype(np.float32),
      action=rng.integers(example.NUM_ACTIONS, size=shape).astype(np.int32),
      policy_logits=rng.normal(
          size=(*shape, example.NUM_ACTIONS)).astype(np.float32),
      policy_version=np.zeros(shape, np.int64))
  return step, tf.nest.map_structure(tf.constant, types.Unroll(
      env_outputs=types.EnvOutput(
          step_type=np.where(goes_on, MID, FIRST).astype(np.uint8),
          reward=step.reward, discount=step.discount,
          observation=step.observation,
          episode_return=np.zeros(shape, np.float32),
          episode_steps=np.zeros(shape, np.int32)),
      agent_outputs=types.AgentOutput(step.action, step.policy_logits),
      core_state=(), policy_version=step.policy_version[0],
      level_index=np.zeros(example.BATCH_SIZE, np.int32)))


@pytest.mark.slow
def test_updates_are_those_of_the_package(example):
  config = gin_config.load('configs/catch.gin')
  environment = experiment.make_environment(config, 1, seed=0, training=True)
  theirs = experiment.make_learner(
      config, environment, tf.distribute.OneDeviceStrategy('/cpu:0'))
  parts = theirs.agent.parts
  variables = [variable for name in ('torso', 'policy head', 'baseline head')
               for variable in parts[name]]
  ours = example.Learner()
  for variable, parameter in zip(variables, ours.parameters, strict=True):
    parameter.assign(variable)
  for seed in range(_NUM_UPDATES):
    before = [variable.numpy() for variable in variables]
    step, unroll = _batch(example, seed)
    theirs.update(unroll)
    ours.update(step)
    for variable, parameter, old in zip(variables, ours.parameters, before):
      np.testing.assert_allclose(parameter, variable, rtol=0, atol=1e-6)
      assert np.abs(variable - old).max() > 1e-4
  assert ours.num_frames.numpy() == theirs.num_frames.numpy() > 0


def test_modules_on_the_map_exist():
  named = re.findall(r'impala_tf/[\w/]+\.py', _PATH.read_text())
  assert len(named) > 10
  assert not [path for path in named if not (programs.ROOT / path).exists()]
