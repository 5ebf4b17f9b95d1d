"""Modules of the user are imported once, and their errors are one line."""

import importlib
import multiprocessing
import pathlib
import pickle
import sys
import types

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import user_modules

pytestmark = pytest.mark.usefixtures('modules_forgotten')


@pytest.fixture(name='write')
def _write(tmp_path):
  def write(name, text=''):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)
  return write


def test_file_is_imported_once_with_its_neighbours(
    write, tmp_path, monkeypatch):
  write('my_neighbour.py', 'NUMBER = 7')
  path = write('my_file.py', """
import my_neighbour
open('trace', 'a').write(f'{my_neighbour.NUMBER} ')
class Thing: pass
""")
  monkeypatch.chdir(tmp_path)
  user_modules.load([path, 'my_file.py', './my_file.py'])
  assert (tmp_path / 'trace').read_text() == '7 '
  # Processes get what they pickle of it.
  assert pickle.loads(pickle.dumps(sys.modules['my_file'].Thing()))


def test_neighbour_hides_no_other_module(write, monkeypatch):
  monkeypatch.delitem(sys.modules, 'colorsys', raising=False)
  write('colorsys.py', '1 / 0')
  user_modules.load([write('my_file.py', 'import colorsys')])
  assert sys.modules['my_file'].colorsys.rgb_to_hsv


def test_module_that_a_registration_names_is_imported(
    write, tmp_path, monkeypatch):
  write('my_package/my_part.py')
  monkeypatch.syspath_prepend(tmp_path)
  user_modules.share('my_package.my_part', 'it')
  assert user_modules.sources() == ['my_package.my_part']


def test_other_processes_get_the_same_imports(write, tmp_path, monkeypatch):
  write('my_file.py')
  monkeypatch.chdir(tmp_path)
  user_modules.load(['my_file.py', 'wave'])
  path = str(tmp_path / 'my_file.py')
  assert user_modules.sources() == [path, 'wave']
  assert user_modules.flags() == [f'--import={path}', '--import=wave']
  assert user_modules.paths() == [path]
  assert user_modules.is_loaded('my_file') and user_modules.is_loaded('wave')
  # The user has not named the modules that a file imports itself.
  assert not user_modules.is_loaded('os')


def test_program_that_its_children_import_may_not_train_at_once(monkeypatch):
  user_modules.refuse_while_importing('train')
  monkeypatch.setattr(
      multiprocessing.current_process(), '_inheriting', True, raising=False)
  with pytest.raises(config_lib.UserError, match="its program, .* '__main__':"):
    user_modules.refuse_while_importing('train')


@pytest.mark.parametrize('source, words', [
    ('no_such.py', 'no_such.py: there is no such file; give the path of a .py'),
    ('no_such_module', "no module 'no_such_module'; give the name of an insta"),
    ('os.no_such', "no module 'os.no_such'; give")])
def test_what_is_not_there_is_refused(source, words):
  with pytest.raises(config_lib.UserError) as error:
    user_modules.load([source])
  assert words in str(error.value)
  assert not user_modules.sources()


@pytest.mark.parametrize('text, words', [
    ('\nx = = 1', 'line 2: SyntaxError: invalid syntax'),
    ('def f():\n  raise ValueError("one\\ntwo")\nf()',
     'line 2: ValueError: one two'),
    ('import sys\nsys.exit(3)', 'line 2: SystemExit: 3'),
    ('import impala_tf\nimpala_tf.evaluate("x")', 'line 2: every process of '),
    ('import impala_tf\nimpala_tf.register_torso("deep")',
     "line 2: there is a torso 'deep' already; choose another name")])
def test_error_of_a_file_is_one_line_with_its_number(write, text, words):
  path = write('my_bad_file.py', text)
  with pytest.raises(config_lib.UserError) as error:
    user_modules.load([path])
  assert str(error.value).startswith(f'--import: {path}, {words}')


@pytest.mark.parametrize('name, words', [
    ('random.py', 'also the name of .*; rename'),
    ('sys.py', 'also the name of .*; rename'),
    ('b/my_twin.py', 'also the name of .*a/my_twin.py'),
    ('my-file.py', "'my-file' cannot be a mod")])
def test_file_that_cannot_be_a_module_of_its_name_is_refused(
    write, name, words):
  user_modules.load([write('a/my_twin.py')])
  with pytest.raises(config_lib.UserError, match=words):
    user_modules.load([write(name)])


_REGISTERING = """
from impala_tf.runtime import user_modules
def register():
  user_modules.note_registration('Option', NAME)
register()
"""


def test_module_that_registers_is_the_one_whose_code_runs(write):
  # In a function of one module, which another calls as it is imported.
  first = write('my_first.py', "NAME = 'first'" + _REGISTERING)
  second = write('my_second.py', "NAME = 'second'\nimport my_first\n"
                 "my_first.NAME = NAME\nmy_first.register()")
  user_modules.load([first, second])
  assert user_modules.registrar('Option', 'first') == 'my_first'
  assert user_modules.registrar('Option', 'second') == 'my_second'
  assert user_modules.registrar('Option', 'third') is None


def test_modules_that_this_process_has_imported_are_shared(write, monkeypatch):
  path = write('my_file.py')
  monkeypatch.syspath_prepend(str(pathlib.Path(path).parent))
  importlib.import_module('my_file')
  for name in ('my_file', 'email', 'email.utils'):
    user_modules.share(name, 'it')
  assert user_modules.sources() == [path, 'email', 'email.utils']


def test_program_is_shared_if_it_is_a_file(write, monkeypatch):
  main = types.ModuleType('__main__')
  monkeypatch.setitem(sys.modules, '__main__', main)
  with pytest.raises(config_lib.UserError, match='^it was registered'):
    user_modules.share('__main__', 'it')
  main.__file__ = write('my_program.py')
  user_modules.share('__main__', 'it')
  assert user_modules.flags() == [f'--import={main.__file__}']
