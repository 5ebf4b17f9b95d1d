"""The rules of the house: who may import whom, and how long things may be."""

import ast
import graphlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent

# A module imports strictly lower layers only. A package's name stands for those
# of its modules that have no line of their own.
LAYERS = {
    'knobs': -1,  # What config is made of.
    'config': 0,
    'types': 0,
    'files': 0,
    'ports': 0,
    'waiting': 0,
    'threads': 0,
    'supervised': 0,
    'instructions': 0,
    'distributions': 0,  # Pure maths too, which vtrace and losses are made of.
    'vtrace': 1,
    'corrections': 2,
    'losses': 1,
    'optimizers': 1,
    'popart': 1,
    'returns': 1,
    'frames': 1,
    'packing': 1,
    'fingerprint': 2,
    'replicas': 3,
    'divergence': 1,
    'inspection': 2,
    'connection': 1,
    'config_json': 1,
    'suites': 1,
    'suites.suite': 0,  # What the suites are made of.
    'suites.levels': 2,  # Which levels a config names: knows every suite.
    'journal': 1,
    'metrics': 2,
    'sweeps': 1,
    'envs.display': 1,
    'envs.environment': 1,  # The interface.
    'networks': 2,
    'popart_head': 2,
    'sweep_results': 2,
    'sizing': 3,
    'level_metrics': 3,
    'envs': 2,
    'envs.minigrid': 3,  # Made of envs.gym.
    'envs.workers': 2,  # Any environments, in processes of their own.
    'envs.multi_level': 3,  # Knows suites.
    'envs.factory': 4,  # The only one that knows every domain.
    'agent': 3,
    'policy': 3,
    'algorithms': 4,  # Their losses are of an agent.
    'algorithms.impala_popart': 5,  # Made of algorithms.impala.
    'actor': 4,
    'dynamic_actor': 5,  # Made of what the actor is made of.
    'replay': 4,
    'dataset': 4,
    'learner': 4,
    'weights': 4,
    'announcement': 4,
    'training': 4,
    'profiling': 4,
    'checkpoint': 4,
    'evaluation': 4,
    'experiment': 6,
    'in_process': 7,
    'population': 7,
    'restarts': 6,  # What the supervisor is made of, and others may be.
    'supervisor': 7,
    'evaluator': 7,
}
HOPS = ('actor', 'replay', 'dataset', 'learner', 'weights')
PURE = (
    'vtrace', 'losses', 'distributions', 'optimizers', 'popart', 'returns',
    'frames')
PURE_MUST_NOT_IMPORT = ('absl', 'gin', 'impala_tf.config', 'logging')

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 70  # Without the docstring; aim for 60.


def _name(path):
  """'impala_tf/envs/__init__.py' -> 'impala_tf.envs'."""
  parts = path.relative_to(ROOT).with_suffix('').parts
  return '.'.join(p for p in parts if p != '__init__')


PATHS = {_name(p): p for p in sorted((ROOT / 'impala_tf').rglob('*.py'))}
LAUNCH_PATHS = {_name(p): p for p in sorted((ROOT / 'launch').rglob('*.py'))}


def _imports(path):
  """Every module that the file imports anywhere, inside of functions too."""
  found = set()
  for node in ast.walk(ast.parse(path.read_text())):
    if isinstance(node, ast.Import):
      found.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{path}: import by the full name instead'
      names = {f'{node.module}.{alias.name}' for alias in node.names}
      # `from package import module` or `from module import thing`.
      found.update(names & PATHS.keys())
      if not names <= PATHS.keys():
        found.add(node.module)
  return found


IMPORTS = {name: _imports(path) for name, path in PATHS.items()}


def _is_or_is_in(module, packages):
  return any(module == p or module.startswith(f'{p}.') for p in packages)


def _layer(module):
  """The layer of the module, or of the package it is in."""
  if module == 'impala_tf':
    return -1  # impala_tf/__init__.py, which every import runs.
  name = module[len('impala_tf.'):]
  package = name.split('.')[0]
  assert name in LAYERS or package in LAYERS, (
      f'{PATHS[module]} is in no layer: add {name!r} to LAYERS in '
      'tests/layers_test.py, and to the table in DESIGN.md')
  return LAYERS.get(name, LAYERS.get(package))


def test_there_is_something_to_check():
  assert {'impala_tf', 'impala_tf.config', 'impala_tf.envs'} <= PATHS.keys()


@pytest.mark.parametrize('module', PATHS)
def test_module_imports_strictly_lower_layers_only(module):
  layer = _layer(module)
  wrong = [m for m in sorted(IMPORTS[module] & PATHS.keys())
           if _layer(m) >= layer]
  assert not wrong, f'{module} is not above {", ".join(wrong)}'


@pytest.mark.parametrize('hop', HOPS)
def test_hop_imports_no_other_hop(hop):
  hops = {f'impala_tf.{h}' for h in HOPS}
  assert not IMPORTS.get(f'impala_tf.{hop}', set()) & hops


def test_imports_have_no_cycle():
  graph = {m: IMPORTS[m] & PATHS.keys() for m in PATHS}
  graphlib.TopologicalSorter(graph).prepare()  # Raises CycleError.


@pytest.mark.parametrize('module', PURE)
def test_pure_module_imports_no_config_and_no_logging(module):
  imports = IMPORTS.get(f'impala_tf.{module}', ())
  assert not [m for m in imports if _is_or_is_in(m, PURE_MUST_NOT_IMPORT)]


@pytest.mark.parametrize('module', PATHS)
def test_module_imports_neither_gin_nor_launch(module):
  wrong = [m for m in IMPORTS[module] if _is_or_is_in(m, ('gin', 'launch'))]
  assert not wrong, 'only launch/ binds gin, and nothing imports launch/'


def test_package_and_config_need_the_standard_library_only():
  # -S: no site-packages, so that nothing else can be found.
  program = ('import sys; sys.path.insert(0, sys.argv[1]); '
             'import impala_tf.config')
  subprocess.run([sys.executable, '-I', '-S', '-c', program, ROOT], check=True)


def test_no_module_has_a_name_that_says_nothing():
  tests = (ROOT / 'tests').rglob('*.py')
  paths = [*PATHS.values(), *LAUNCH_PATHS.values(), *tests]
  assert not [p for p in paths if p.stem in ('utils', 'common', 'helpers')]


@pytest.mark.parametrize('module', {**PATHS, **LAUNCH_PATHS})
def test_module_and_its_functions_are_short(module):
  text = {**PATHS, **LAUNCH_PATHS}[module].read_text()
  lines = text.count('\n')
  assert lines <= MAX_MODULE_LINES, f'{module} has {lines} lines: split it'
  for node in ast.walk(ast.parse(text)):
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
      continue
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
      lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    assert lines <= MAX_FUNCTION_LINES, (
        f'{module}.{node.name} has {lines} lines without its docstring: '
        'split it')
