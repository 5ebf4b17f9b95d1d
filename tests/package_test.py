"""The package as others use it: its public names, and its wheel."""

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
import zipfile

import huggingface_hub
import numpy as np
from packaging import requirements
import pytest

import impala_tf
from impala_tf.runs import recorded_results
from impala_tf.runtime import user_modules
from tests.fixtures import programs

ROOT = programs.ROOT
PAGES = [ROOT / 'docs' / f'{name}.md'
         for name in ('python_api', 'api_reference', 'configuration')]


def test_every_public_name_is_there_and_in_the_docs():
  texts = [page.read_text() for page in PAGES]
  explained = set(re.findall(r'`impala_tf\.(\w+)', texts[0]))
  listed = set(re.findall(r'^::: impala_tf\.(\w+)$', texts[1], re.M))
  sections = set(re.findall(r'^## (\w+Config)', texts[2], re.M))
  assert explained | listed <= set(impala_tf.__all__)
  assert set(impala_tf.__all__) <= explained | listed | sections
  assert set(impala_tf.__all__) <= set(dir(impala_tf))
  for name in impala_tf.__all__:
    assert getattr(impala_tf, name).__doc__
  with pytest.raises(AttributeError, match="has no attribute 'load_polciy'"):
    impala_tf.load_polciy  # noqa: B018


def test_editors_and_type_checkers_see_the_same_names():
  (block,) = (node for node in ast.parse(inspect.getsource(impala_tf)).body
              if isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.dump(node))
  seen = {name.asname or name.name: (line.module, name.name)
          for line in block.body for name in line.names}
  assert seen == impala_tf._API


def test_citation_names_this_version():
  version = f'\nversion: {impala_tf.__version__}\n'
  assert version in (ROOT / 'CITATION.cff').read_text()


def test_trained_agent_plays_pong_as_ever():
  # With every version of TensorFlow.
  agents = ROOT / 'testdata' / 'agents'
  policy = impala_tf.load_policy(str(agents / 'pong'), seed=1)
  environment = impala_tf.make_environment('atari/pong', seed=1)
  observation, actions = environment.reset().observation, []
  for _ in range(500):
    actions.append(policy.act(observation[0]))
    observation = environment.step(np.int32(actions[-1:])).observation
  environment.close()
  expected = (agents.parent / 'pong_actions.txt').read_text().split()
  assert ''.join(map(str, actions)) == ''.join(expected)


AGENTS = sorted(path.name for path in (ROOT / 'testdata' / 'agents').iterdir()
                if path.is_dir())


@pytest.mark.slow
@pytest.mark.parametrize('name', AGENTS)
def test_shipped_agent_plays_by_its_name(name, tmp_path):
  output = tmp_path / 'result.json'
  programs.run('impala_tf', 'evaluate', name, '--episodes=1',
               f'--output={output}', check=True)
  directory = ROOT / 'testdata' / 'agents' / name
  card = huggingface_hub.ModelCard.load(directory / 'README.md')
  level = json.loads(output.read_text())['level']
  assert level == card.data.eval_results[0].dataset_name
  assert card.data.license == 'apache-2.0'
  assert sum(path.stat().st_size for path in directory.rglob('*.*')) < 1.5e6


@pytest.mark.parametrize('name', AGENTS)
def test_card_of_a_shipped_agent_has_a_recorded_score(name):
  text = (ROOT / 'testdata' / 'agents' / name / 'README.md').read_text()
  assert any(
      f'| {r.task} | {r.score:.2f} +/- {r.standard_error:.2f} | {r.games} |'
      in text and f'| {r.frames:,d} |' in text and f'`{r.command}`' in text
      for r in recorded_results.read(str(ROOT / 'results' / 'results.csv'))
      if r.standard_error is not None)


@pytest.mark.nightly
@pytest.mark.parametrize('name', AGENTS)
def test_shipped_agent_has_the_score_of_its_card(name):
  (result,) = huggingface_hub.ModelCard.load(
      ROOT / 'testdata' / 'agents' / name / 'README.md').data.eval_results
  mean, error = map(float, result.metric_value.split(' +/- '))
  (score,) = impala_tf.evaluate(name, 20, seed=1).values()
  # The card's error is over 200 games. A perfect agent's is 0: 2 % are allowed.
  allowed = 3 * error * (1 + 200 / 20)**0.5 or 0.02 * abs(mean)
  assert abs(score.mean - mean) <= allowed


# Makes an agent of Catch, plays with it and has the programs do so.
_WITHOUT_REVERB = """
import pathlib, sys
sys.modules['reverb'] = None
import dm_env, numpy, impala_tf
from impala_tf.agents import agent, saved
from impala_tf.maths import distributions
from impala_tf.cli import evaluate, export, plot
from impala_tf.runs import gin_config
run_dir, curves = sys.argv[1:]
config = impala_tf.Config(
    environment=impala_tf.EnvironmentConfig(level='catch'),
    agent=impala_tf.AgentConfig(torso='mlp', hidden_size=4, use_lstm=True))
environment = impala_tf.make_environment(config)
spec = environment.observation_spec()
made = agent.Agent(distributions.Categorical(3), config.agent)
made.build(spec)
saved.export_agent(
    saved.LoadedAgent(made, 5, 'ckpt-3', spec, config.agent), run_dir)
pathlib.Path(run_dir, 'config.gin').write_text(gin_config.dumps(config))
assert impala_tf.load_agent(run_dir).num_frames == 5
policy = impala_tf.load_policy(run_dir)
assert policy.act(environment.reset().observation[0]) in range(3)
for main, *arguments in (
    (evaluate.main, run_dir, '--episodes=1'),
    (export.main, run_dir, f'{run_dir}/exported'),
    (plot.main, curves, f'--output={run_dir}/curve.png')):
  sys.argv[1:] = arguments
  assert main() == 0, arguments
"""


@pytest.mark.slow
def test_nothing_but_training_needs_reverb(tmp_path):
  programs.run_code(_WITHOUT_REVERB, tmp_path,
                    ROOT / 'testdata' / 'catch' / 'seed_1', check=True)
  assert (tmp_path / 'exported').is_dir() and (tmp_path / 'curve.png').exists()


@pytest.fixture(name='wheel', scope='module')
def _wheel(tmp_path_factory):
  """Builds the wheel without a network, in a copy of what it is made of."""
  path = tmp_path_factory.mktemp('wheel')
  for name in ('configs', 'impala_tf', 'launch', 'testdata/agents', 'tests'):
    shutil.copytree(ROOT / name, path / name,
                    ignore=shutil.ignore_patterns('__pycache__'))
  for name in ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE'):
    shutil.copy(ROOT / name, path)
  ran = subprocess.run(
      [sys.executable, '-m', 'pip', 'wheel', '--no-build-isolation',
       '--no-deps', '--no-index', '--wheel-dir', path / 'dist', path],
      capture_output=True, text=True, timeout=300)
  assert ran.returncode == 0, ran.stderr
  wheel, = (path / 'dist').glob('*.whl')
  return wheel


@pytest.mark.slow
def test_wheel_holds_the_package_and_says_what_it_needs(wheel):
  with zipfile.ZipFile(wheel) as archive:
    names = set(archive.namelist())
    metadata, entry_points = (
        archive.read(f'impala_tf-{impala_tf.__version__}.dist-info/{name}')
        .decode() for name in ('METADATA', 'entry_points.txt'))
  assert 'Requires-Python: >=3.10\n' in metadata
  assert 'License-Expression: Apache-2.0\n' in metadata
  assert 'impala-tf = impala_tf.cli.main:main' in entry_points
  tops = {name.partition('/')[0] for name in names}
  assert tops == {'impala_tf', f'impala_tf-{impala_tf.__version__}.dist-info'}
  files = {
      f'impala_tf/{place}{path.relative_to(ROOT / top)}'
      for top, place in (('impala_tf', ''), ('configs', 'configs/'),
                         ('testdata/agents', 'box/'))
      for path in (ROOT / top).rglob('*') if path.is_file()
      and '__pycache__' not in path.parts
      and path.name not in ('BUILD', 'README.md', 'evaluation.json',
                            'replay.mp4')}
  assert {n for n in names if n.startswith('impala_tf/')} == files
  assert {'impala_tf/py.typed', 'impala_tf/suites/atari57_scores.csv',
          'impala_tf/suites/dmlab30_scores.csv', 'impala_tf/configs/catch.gin',
          'impala_tf/configs/atari/pong.gin',
          'impala_tf/box/pong/config.gin'} <= files


@pytest.mark.parametrize('python, machine, extra, expected', [
    ('3.10', 'x86_64', 'cpu', 'dm-reverb 0.14.0, tensorflow-cpu 2.15.1'),
    ('3.11', 'x86_64', 'gpu', 'dm-reverb 0.14.0, tensorflow 2.15.1'),
    ('3.11', 'aarch64', 'cpu', 'tensorflow 2.15.1'),
    ('3.12', 'x86_64', 'cpu', 'tensorflow 2.21.0, tf-keras 2.21.0'),
    ('3.13', 'x86_64', 'gpu', 'tensorflow 2.21.0, tf-keras 2.21.0')])
def test_each_python_gets_its_tensorflow(python, machine, extra, expected):
  # Part of Python from 3.11 on.
  tomllib = pytest.importorskip('tomllib')
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  system = {'python_version': python, 'sys_platform': 'linux',
            'platform_machine': machine, 'extra': ''}
  pins = {}
  for line in (ROOT / 'constraints.txt').read_text().splitlines():
    if line and not line.startswith('#'):
      pin = requirements.Requirement(line)
      if pin.marker is None or pin.marker.evaluate(system):
        assert pin.name not in pins, f'{pin.name} is pinned twice'
        pins[pin.name] = str(pin.specifier).removeprefix('==')
  needed = [r for r in map(requirements.Requirement, [
      *project['dependencies'], *project['optional-dependencies'][extra]])
            if r.marker is None or r.marker.evaluate(system)]
  names = {r.name for r in needed}
  assert names <= set(pins)
  for requirement in needed:
    assert requirement.specifier.contains(pins[requirement.name]), requirement
  assert ', '.join(f'{name} {pins[name]}' for name in sorted(names) if name in (
      'dm-reverb', 'tensorflow', 'tensorflow-cpu', 'tf-keras')) == expected


@pytest.mark.slow
def test_installed_package_plays_without_the_clone(wheel, tmp_path):
  with zipfile.ZipFile(wheel) as archive:
    archive.extractall(tmp_path / 'site')
  program = """
import sys
assert not any('launch' in path for path in sys.path)
import impala_tf
from impala_tf.runs import gin_config
from impala_tf.storage import shipped
environment = impala_tf.make_environment('catch', num_envs=2)
print(impala_tf.__file__, environment.reset().observation.shape)
impala_tf.load_policy(shipped.find_agent('pong'))
sweep = gin_config.load_sweep('small_tasks', shipped.SWEEPS)
for name in ('laser/catch_delayed', *sweep.tasks.values()):
  gin_config.load(name)
"""
  path = [p for p in sys.path if 'site-packages' in p]
  ran = subprocess.run(
      [sys.executable, '-c', program], cwd=tmp_path, capture_output=True,
      text=True, timeout=programs.DEADLINE_SECS,
      env={'PYTHONPATH': ':'.join([str(tmp_path / 'site'), *path])})
  assert ran.returncode == 0, ran.stderr
  assert str(tmp_path / 'site') in ran.stdout and '(2, 10, 5)' in ran.stdout


@pytest.mark.slow
def test_examples_of_the_page_run(tmp_path, monkeypatch):
  from tests.fixtures import trained_runs  # Needs Reverb, unlike the others.
  monkeypatch.setattr(user_modules, '_sources', {})  # Of other tests.
  monkeypatch.chdir(tmp_path)
  for name, level in (('cartpole', 'gym/CartPole-v1'), ('pong', 'atari/pong')):
    path = tmp_path / 'runs' / name
    path.mkdir(parents=True)
    trained_runs.make(path, level)
  examples = re.findall(r'^```python\n(.*?)^```', PAGES[0].read_text(),
                        re.M | re.S)
  assert len(examples) == 3
  names = {'__name__': '__main__'}
  for example in examples:
    exec(compile(example, str(PAGES[0]), 'exec'), names)
  assert names['action'] in range(2) and names['result'].updates > 0
