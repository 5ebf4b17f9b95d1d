"""The rules of the house: who may import whom, and how long things may be."""

import ast
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The modules an unroll and its parameters travel through.
HOPS = ('actor', 'queue', 'batches', 'learner', 'weights')

# The order of all rooms and flat modules, lowest layer first. An entry imports
# entries of lower layers only, never one beside it; the modules of one room may
# import each other without a cycle. All else is derived from the tree.
PRODUCT = (  # impala_tf/
    ('config',),
    ('maths', 'storage', 'suites', 'sweeps', 'types'),
    ('optimizers',),
    ('runtime',),
    ('runs',),
    ('comms', 'envs'),
    ('agents', 'replay'),
    ('algorithms',),
    ('core',),
    ('a3c', 'pbt'),
    ('roles',),
    ('plots', 'ray_cluster'),
    ('cli',),
    ('__main__',),
)
# lab/, all of it above all of impala_tf/.
LAB = (('bench', 'figures', 'prose', 'site_sources'), ('gpu_step',))
ORDER = [*([f'impala_tf.{name}' for name in layer] for layer in PRODUCT),
         *([f'lab.{name}' for name in layer] for layer in LAB)]
LAYER_OF = {entry: i for i, layer in enumerate(ORDER) for entry in layer}

TOPS = ('impala_tf', 'lab')
MAX_FUNCTION_LINES = 60  # Without the docstring.

# Modules that maths/ may import, and code that it may not have.
PURE_ROOM = 'impala_tf.maths'
PURE_MAY_IMPORT = (
    PURE_ROOM, 'abc', 'collections', 'dataclasses', 'dm_env', 'functools',
    'math', 'numpy', 'tensorflow', 'tensorflow_probability', 'typing')
IMPURE = re.compile(
    r'\bglobal \w|\b(?:breakpoint|exec|eval|input|open|print|__import__)\('
    r'|\btf\.(?:Module|Variable|compat|data|distribute|get_logger|io|keras'
    r'|lookup|numpy_function|py_function|queue|saved_model|summary|train)\b'
    r'|\bnp\.(?:load|memmap|save)')


def _name(path):
  """Converts 'impala_tf/envs/__init__.py' to 'impala_tf.envs'."""
  names = path.relative_to(ROOT).with_suffix('').parts
  return '.'.join(n for n in names if n != '__init__')


PATHS = {
    _name(path): path
    for top in TOPS
    for path in sorted((ROOT / top).rglob('*.py'))}
TREES = {name: ast.parse(path.read_text()) for name, path in PATHS.items()}


class _WithoutTypes(ast.NodeTransformer):
  """Leaves out what only type checkers import."""

  def visit_If(self, node):
    return None if ast.unparse(node.test) == 'TYPE_CHECKING' else node


def _imports(module):
  """Lists what the module imports anywhere, inside of functions too."""
  found = set()
  for node in ast.walk(_WithoutTypes().visit(ast.parse(
      PATHS[module].read_text()))):
    if isinstance(node, ast.Import):
      found.update(alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{module}: import by the full name instead'
      names = {f'{node.module}.{alias.name}' for alias in node.names}
      # `from package import module` or `from module import thing`.
      found.update(names & PATHS.keys())
      if not names <= PATHS.keys():
        found.add(node.module)
  return found


IMPORTS = {module: _imports(module) for module in PATHS}
MODULES = [module for module in PATHS if '.' in module]


def _is_or_is_in(module, packages):
  return any(module == p or module.startswith(f'{p}.') for p in packages)


def _entry(module):
  """Returns the room or flat module of the order that a module belongs to."""
  return '.'.join(module.split('.')[:2])


def _imported_entries(module):
  """Lists other entries of the order that a module imports.

  Left out are the packages `impala_tf` and `lab` themselves, which every
  import runs.
  """
  imported = {_entry(m) for m in IMPORTS[module] & PATHS.keys() if '.' in m}
  return sorted(imported - {_entry(module)})


# The order and the tree.


def test_all_rooms_and_flat_modules_have_a_layer():
  assert {_entry(m) for m in MODULES} == LAYER_OF.keys(), (
      'add it to the order above')


# Imports.


@pytest.mark.parametrize('module', MODULES)
def test_module_imports_lower_layers_and_its_own_room_only(module):
  layer = LAYER_OF.get(_entry(module), 0)
  wrong = [entry for entry in _imported_entries(module)
           if LAYER_OF.get(entry, len(ORDER)) >= layer]
  assert not wrong, f'{module} is not above {", ".join(wrong)}'


@pytest.mark.parametrize('module', TOPS)
def test_top_package_imports_no_room_and_no_module(module):
  assert not _imported_entries(module)


@pytest.mark.parametrize('hop', HOPS)
def test_hop_imports_no_other_hop(hop):
  hops = {f'impala_tf.core.{h}' for h in HOPS}
  assert not IMPORTS[f'impala_tf.core.{hop}'] & hops


def test_imports_have_no_cycle():
  graph = {m: IMPORTS[m] & PATHS.keys() for m in PATHS}
  graphlib.TopologicalSorter(graph).prepare()  # Raises CycleError.


def test_gin_is_imported_by_one_module_of_the_product():
  assert [m for m in PATHS if m.startswith('impala_tf')
          and any(_is_or_is_in(i, ['gin']) for i in IMPORTS[m])] == [
              'impala_tf.runs.gin_config']


def test_package_and_config_need_the_standard_library_only():
  # -S: no site-packages, so that nothing else can be found.
  program = ('import sys; sys.path.insert(0, sys.argv[1]); '
             'import impala_tf.config')
  subprocess.run([sys.executable, '-I', '-S', '-c', program, ROOT], check=True)


@pytest.mark.parametrize('module', [
    m for m in PATHS if _is_or_is_in(m, [PURE_ROOM])])
def test_pure_module_has_no_variables_no_config_and_no_io(module):
  assert not IMPURE.findall(ast.unparse(TREES[module]))
  wrong = [m for m in IMPORTS[module] if not _is_or_is_in(m, PURE_MAY_IMPORT)]
  assert not wrong


# Names and lengths.


def test_no_module_has_a_name_that_says_nothing():
  paths = [*PATHS.values(), *(ROOT / 'tests').rglob('*.py')]
  assert not [p for p in paths if p.stem in ('utils', 'common', 'helpers')]


@pytest.mark.parametrize('module', PATHS)
def test_functions_are_short(module):
  for node in ast.walk(TREES[module]):
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
      continue
    lines = node.end_lineno - node.lineno + 1
    if ast.get_docstring(node) is not None:
      lines -= node.body[0].end_lineno - node.body[0].lineno + 1
    assert lines <= MAX_FUNCTION_LINES, (
        f'{module}.{node.name} has {lines} lines without its docstring: '
        'split it')


@pytest.mark.parametrize('name', ['experiment', 'transport'])
def test_wiring_makes_parts_and_knows_no_algorithm(name):
  text = (ROOT / 'impala_tf' / 'core' / f'{name}.py').read_text()
  functions = [node for node in ast.parse(text).body
               if isinstance(node, ast.FunctionDef)]
  assert all(f.name.startswith(('make_', 'serve', '_')) for f in functions)
  assert max(f.end_lineno - f.lineno + 1 for f in functions) <= 40
  imports = [node for node in ast.walk(ast.parse(text))
             if isinstance(node, ast.ImportFrom)
             and node.module.startswith('impala_tf')]
  assert len(imports) <= 20
  assert 'popart' not in text.lower()
