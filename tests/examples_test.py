"""The files in examples/; docs_test runs the pages that explain them."""

import json

import gymnasium
import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.agents import saved
from impala_tf.runs import metrics
from impala_tf.runtime import user_modules
from tests.fixtures import programs


def test_files_can_be_imported():
  names = [path.stem for path in (programs.ROOT / 'examples').glob('*.py')]
  programs.run_code(f'from examples import {", ".join(names)}', check=True)


@pytest.mark.slow
def test_all_files_at_once_in_every_process(tmp_path):
  bindings = [f'--gin_binding={line}' for line in (
      'ExperimentConfig.total_frames = 3000',
      "AgentConfig.torso = 'my_torso'",
      "ExperimentConfig.algorithm = 'my_algorithm'",
      'ActorConfig.env_processes = 2', 'ActorConfig.num_envs = 4',
      "EnvironmentConfig.kwargs = {'size': 7}")]
  arguments = ['examples/my_environment.gin', f'--run_dir={tmp_path}',
               '--evaluate', *bindings]
  modules = [f'--import=examples/my_{part}.py'
             for part in ('environment', 'network', 'algorithm')]
  programs.run('impala_tf', 'train', *arguments, *modules, timeout=300.,
               check=True)
  rows = metrics.read_rows(str(tmp_path))
  assert rows[-1]['frames'] >= 3000 and rows[-1]['loss/kl'] > 0
  description = json.loads(
      (tmp_path / 'checkpoints' / 'agent.json').read_text())
  assert description['observation_shape'] == [7, 7, 2]
  # Without the files it is not resumed, and not loaded.
  line = programs.error_line(programs.run('impala_tf', 'train', *arguments))
  assert "algorithm must be one of" in line and '--import=FILE.py' in line
  with pytest.raises(config_lib.UserError, match=(
      "is 'my_torso'; .* once the file that registers it was imported")):
    saved.load_agent(str(tmp_path))


@pytest.mark.usefixtures('modules_forgotten')
def test_example_shows_a_map_and_pays_for_apples():
  user_modules.load([str(programs.ROOT / 'examples' / 'my_environment.py')])
  env = gymnasium.make('Meadow-v0', size=3, render_mode='rgb_array')
  observation, _ = env.reset(seed=0)
  apples, steps = 0, 0
  is_over = False
  while not is_over:
    (row, column), (apple_row, apple_column) = (
        np.argwhere(observation[..., plane])[0] for plane in (0, 1))
    if row != apple_row:
      action = 0 if apple_row < row else 2
    else:
      action = 3 if apple_column < column else 1
    observation, reward, terminated, is_over, _ = env.step(action)
    apples += reward
    steps += 1
    assert not terminated
  assert steps == 50 and 15 <= apples <= 40
  assert env.render().shape == (96, 96, 3)
