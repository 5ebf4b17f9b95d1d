"""The files in examples/, and the commands of the pages that explain them."""

import json
import pathlib
import re
import shlex

import gymnasium
import numpy as np
import pytest

from impala_tf.agents import saved
from impala_tf.cli import train
from impala_tf.runs import metrics
from impala_tf.runtime import user_modules
from impala_tf.storage import checkpoint
from tests.fixtures import programs

_DEADLINE_SECS = 300.
_SLOW = pytest.mark.timeout(900)
_ENVIRONMENT = '--import=examples/my_environment.py'
_NETWORK = '--import=examples/my_network.py'
_FEW_FRAMES = '--gin_binding=ExperimentConfig.total_frames = 3000'


def _commands(page, run_dirs):
  """Yields the commands of a page's bash blocks, each as a verb and words.

  Args:
    page: name of the page in docs/.
    run_dirs: directory that takes the place of runs/.
  """
  text = (programs.ROOT / 'docs' / page).read_text()
  for block in re.findall(r'^```bash\n(.*?)^```', text, re.M | re.S):
    for line in block.replace('\\\n', ' ').splitlines():
      script, *words = shlex.split(line.replace('runs/', f'{run_dirs}/'))
      yield pathlib.Path(script).stem, words


@pytest.mark.slow
@_SLOW
@pytest.mark.parametrize('page, number', [
    ('own_environment.md', 3), ('networks_and_algorithms.md', 4)])
def test_commands_of_a_page_work(tmp_path, page, number):
  commands = list(_commands(page, tmp_path))
  assert len(commands) == number
  for verb, words in commands:
    if verb == 'train':
      words.append(_FEW_FRAMES)
    ran = programs.run('impala_tf', verb, *words, timeout=_DEADLINE_SECS)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
@_SLOW
def test_everything_of_ones_own_at_once_in_every_process(tmp_path):
  bindings = [f'--gin_binding={line}' for line in (
      "AgentConfig.torso = 'my_torso'",
      "ExperimentConfig.algorithm = 'my_algorithm'",
      'ActorConfig.env_processes = 2', 'ActorConfig.num_envs = 4',
      "EnvironmentConfig.kwargs = {'size': 7}")]
  arguments = ['examples/my_environment.gin', f'--run_dir={tmp_path}',
               _FEW_FRAMES, '--evaluate', *bindings]
  modules = [_ENVIRONMENT, _NETWORK, '--import=examples/my_algorithm.py']
  ran = programs.run('impala_tf', 'train', *arguments, *modules,
                     timeout=_DEADLINE_SECS)
  assert ran.returncode == 0, ran.stderr
  rows = metrics.read_rows(str(tmp_path))
  assert rows[-1]['frames'] >= 3000 and rows[-1]['loss/kl'] > 0
  description = json.loads(
      (tmp_path / 'checkpoints' / 'agent.json').read_text())
  assert description['observation_shape'] == [7, 7, 2]
  # Without the files it is not resumed, and not loaded.
  line = programs.error_line(programs.run('impala_tf', 'train', *arguments))
  assert "algorithm must be one of" in line and '--import=FILE.py' in line
  with pytest.raises(checkpoint.CheckpointError, match=(
      "is 'my_torso'; .* once the file that registers it was imported")):
    saved.load_agent(str(tmp_path))


@pytest.mark.usefixtures('modules_forgotten')
def test_error_in_a_file_is_refused_before_anything_is_written(
    refused, tmp_path):
  bad = tmp_path / 'my_bad_file.py'
  bad.write_text('\n1 / 0')
  line = refused(train.main, 'configs/catch.gin',
                 f'--run_dir={tmp_path / "run"}', f'--import={bad}')
  assert line.startswith(f'error: --import: {bad}, line 2: ZeroDivisionError')
  assert not (tmp_path / 'run').exists()


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
