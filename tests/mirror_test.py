"""tests/ mirrors the tree: each module has its test, and each test its module.

`impala_tf/maths/vtrace.py` is tested by `tests/maths/vtrace_test.py`,
`impala_tf/cli/program.py` by `tests/cli/program_test.py`, and `__main__.py`
by `main_test.py`. Modules that several tests share lie in tests/fixtures/.
"""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / 'tests'

# Modules without a mirrored test, by the tests that run them.
_COVERING = {
    'algorithms/table': ['impala_tf/algorithms/algorithm'],
    'cli/export': ['impala_tf/runs/model_card'],
    'cli/main': ['impala_tf/__main__'],
    'cli/train': ['impala_tf/roles/local_run'],
    'cli/warm_start': ['impala_tf/roles/beginning'],
    'comms/parameter_memory': ['impala_tf/comms/anonymous_files'],
    'config/config': [f'impala_tf/config/{name}' for name in (
        'actor', 'agent', 'asynchronous', 'atari', 'dmlab', 'environment',
        'experiment', 'impala', 'laser', 'learner', 'optimizer', 'population',
        'replay', 'vizdoom')],
    'core/actor': ['impala_tf/types'],  # Which actors fill.
    'core/batches': ['impala_tf/comms/sampling', 'impala_tf/replay/sources'],
    'core/experiment': ['impala_tf/core/transport'],
    'docs': ['lab/site_sources'],
    'faults/shared_replay': ['impala_tf/roles/replay_server'],
    'lab/bench/main': ['lab/bench/data_plane', 'lab/bench/parameters',
                       'lab/bench/worker'],
    'lab/bench/parts': ['lab/bench/random_actions'],
    'lab/bench/table_1': ['lab/bench/turns'],
    'ray_cluster/program': ['impala_tf/ray_cluster/host'],
    'roles/in_process': [
        'impala_tf/roles/learner_parts', 'impala_tf/roles/learner_with_actors',
        'impala_tf/roles/learning', 'impala_tf/runtime/control'],
    'roles/shared_parameters': [
        'impala_tf/a3c/parameter_server', 'impala_tf/roles/a3c_workers'],
    'runtime/learner_group': ['impala_tf/runtime/interfaces'],
    'runtime/supervisor': [
        'impala_tf/runtime/local', 'impala_tf/runtime/program'],
}
COVERED_ELSEWHERE = {
    f'{module}.py': f'tests/{test}_test.py'
    for test, modules in _COVERING.items() for module in modules}
# Tests of no single module, and what they test.
OF_NO_MODULE = {
    'tests/configs_test.py': 'every .gin file in configs/',
    'tests/core/unroll_path_test.py': 'the files that an unroll passes',
    'tests/envs/dmlab_contract_test.py': 'DeepMind Lab, and its stand-in',
    'tests/envs/dmlab_levels_test.py': "DeepMind Lab's own levels",
    'tests/examples': 'examples that are whole programs',
    'tests/examples_test.py': 'examples/',
    'tests/faults': 'what real runs survive, docs/reliability.md',
    'tests/ray_cluster/batch_test.py': 'batches of programs on a cluster',
    'tests/launch/cluster_examples_test.py': 'Slurm and Kubernetes files',
    'tests/docs_test.py': 'README.md, docs/ and mkdocs.yml',
    'tests/launch/docker_test.py': 'launch/docker/Dockerfile',
    'tests/launch/remote_run_test.py': 'every program on a directory at a URL',
    'tests/launch/scripts_test.py': 'shell scripts',
    'tests/launch/setup_test.py': 'launch/setup.sh',
    'tests/launch/several_learners_test.py': 'whole runs of several learners',
    'tests/roles/population_in_process_test.py': 'members of populations',
    'tests/layers_test.py': 'the tree',
    'tests/maths/vtrace_theory_test.py': "V-trace's theorems, beyond its code",
    'tests/mirror_test.py': 'the tree',
    'tests/package_test.py': 'public names and the wheel',
}
# Files of pytest and Bazel.
NO_TESTS = ('tests/bazel_main.py', 'tests/conftest.py',
            'tests/ray_cluster/conftest.py')


def _mirrored(module):
  """Returns the path of a module's test, both relative to the root."""
  place = module.parent
  if place.parts[0] == 'impala_tf':
    place = place.relative_to('impala_tf')
  return pathlib.Path('tests', place, f'{module.stem.strip("_")}_test.py')


def _paths(*tops):
  return [path.relative_to(ROOT) for top in tops
          for path in sorted((ROOT / top).rglob('*.py'))]


MODULES = [m for m in _paths('impala_tf', 'lab') if m.name != '__init__.py']
MIRRORED = {_mirrored(module): module for module in MODULES}
TEST_FILES = [path for path in _paths('tests')
              if pathlib.Path('tests/fixtures') not in path.parents]


def _of_no_module(path):
  return any(str(p) in OF_NO_MODULE for p in (path, *path.parents))


def test_there_is_something_to_check():
  assert pathlib.Path('tests/maths/vtrace_test.py') in MIRRORED
  assert len(MIRRORED) == len(MODULES)
  assert not list((TESTS / 'fixtures').rglob('*_test.py'))


@pytest.mark.parametrize('module', MODULES, ids=str)
def test_module_has_its_test(module):
  test = _mirrored(module)
  if str(module) in COVERED_ELSEWHERE:
    other = COVERED_ELSEWHERE[str(module)]
    assert (ROOT / other).exists(), f'{other} is to cover {module}'
    assert not (ROOT / test).exists(), f'{module} needs no exception'
  else:
    assert 'def test' in (ROOT / test).read_text(), f'{test} has no test'


@pytest.mark.parametrize('path', TEST_FILES, ids=str)
def test_test_has_its_module(path):
  if str(path) in NO_TESTS:
    return
  assert path.name.endswith('_test.py'), (
      f'{path} is no test: it belongs in tests/fixtures/')
  assert (path in MIRRORED) != _of_no_module(path), (
      f'{path} mirrors no module, or is an exception without need')


def test_exceptions_are_of_files_that_exist():
  for path in (*COVERED_ELSEWHERE, *OF_NO_MODULE, *NO_TESTS):
    assert (ROOT / path).exists(), path
