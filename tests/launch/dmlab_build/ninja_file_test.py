"""Tests of build.ninja: what the real Ninja makes of it with real compilers."""

import ctypes
import subprocess

import pytest

from launch.dmlab_build import build_files
from launch.dmlab_build import ninja_file
from tests.fixtures import tiny_lab


def _ninja(build):
  ran = subprocess.run(['ninja', '-C', build], capture_output=True, text=True,
                       timeout=120)
  assert ran.returncode == 0, ran.stdout
  return ran.stdout


def _write(source, build):
  build.mkdir(exist_ok=True)
  ninja_file.of_lab(source).write(build)


@pytest.fixture(name='tree', scope='module')
def _built_tree(tmp_path_factory):
  """Returns sources, and a directory where all of them were built."""
  top = tmp_path_factory.mktemp('a top')  # Spaces are in all paths.
  source = tiny_lab.write(top / 'the $ sources')
  _write(source, top / 'build')
  _ninja(top / 'build')
  return source, top / 'build'


@tiny_lab.needs_compiler
def test_libraries_are_built_with_what_dependencies_declare(tree):
  _, build = tree
  for kind in ('sw', 'hw'):
    library = ctypes.CDLL(str(build / f'libdmlab_headless_{kind}.so'))
    # 7 is in a header that only `includes` of another package finds, 3 in its
    # `defines`; a third, its `copts`, would be an error.
    assert library.dmlab_number() == 73
    library.dmlab_text.restype = ctypes.c_char_p
    assert library.dmlab_text() == b'a b'
    assert not hasattr(library, 'Call')  # The version script hides it.


@tiny_lab.needs_compiler
def test_bytecode_is_assembled_from_what_is_compiled_and_what_is_there(tree):
  _, build = tree
  for path in ('cgame/cgame', 'game/qagame', 'q3_ui/ui'):
    code = build / 'gen' / 'engine' / 'code' / f'{path}.qvm'
    assert code.read_text() == 'main\nsyscalls\n'
    assert code.with_suffix('.map').exists()


@tiny_lab.needs_compiler
def test_only_what_depends_on_a_change_is_built_again(tree):
  source, build = tree
  _write(source, build)
  assert 'no work to do' in _ninja(build)
  header = source / 'deepmind' / 'lua' / 'include' / 'call.h'
  header.write_text('#define NUMBER 8\n')
  said = _ninja(build)
  assert 'call.cc.o' in said and 'main.c.o' not in said
  library = ctypes.CDLL(str((build / 'libdmlab_headless_sw.so').rename(
      build / 'another_name.so')))  # The one of before is still loaded.
  assert library.dmlab_number() == 83
  with open(source / 'q3map2' / 'BUILD', 'w') as file:
    file.write('cc_binary(name = "q3map2", srcs = ["main.c"], '
               'copts = ["-DX"])\n')
  _write(source, build)
  said = _ninja(build)
  assert 'main.c.o' in said and 'call.cc.o' not in said


def test_file_with_two_sets_of_options_is_compiled_twice(tmp_path):
  (tmp_path / 'BUILD').write_text('''
cc_binary(name = "a", srcs = ["x.c"], deps = [":c"])
cc_binary(name = "b", srcs = ["x.c"], deps = ["@other//:lib"])
cc_library(name = "c", srcs = ["x.c"])
''')
  asked = []

  def library(label):
    asked.append(label)
    return ninja_file.Flags(['-DOTHER'], ['-lother'])

  ninja = ninja_file.NinjaFile(tmp_path, library)
  ninja.binary('//:a', 'a')
  ninja.binary('//:b', 'b')
  lines = ninja.text().splitlines()
  compiled = [i for i, line in enumerate(lines) if ': cc ' in line]
  plain, other = (lines[i + 1] for i in compiled)
  assert '-DOTHER' not in plain and '-DOTHER' in other
  assert len({lines[i].split(':')[0] for i in compiled}) == 2
  assert asked == ['@other//:lib']
  assert lines[-2].startswith('build b: link ') and '-lother' in lines[-1]


def test_library_that_is_not_known_or_not_installed_is_named():
  with pytest.raises(build_files.BuildFileError, match='@boost//:any'):
    ninja_file.system_library('@boost//:any')
  with pytest.raises(build_files.BuildFileError, match='absl_no_such_part'):
    ninja_file.system_library('@com_google_absl//absl/x:no_such_part')


@tiny_lab.needs_compiler
def test_own_log_writes_lines_and_ends_the_process(tmp_path):
  """The statements are those that Lab has, `else` after a macro included."""
  program = tmp_path / 'program'
  program.with_suffix('.cc').write_text(r'''
#include <cstring>
#include "absl/log/check.h"
int main(int argc, char** argv) {
  LOG(INFO) << "one " << 1;
  LOG_IF(ERROR, argc > 5) << "never";
  if (argc > 5) CHECK(false); else LOG(WARNING) << "else";
  CHECK_EQ(argc, 2) << "arguments";
  if (!strcmp(argv[1], "quietly")) LOG(QFATAL) << "end";
  CHECK_GT(1, 2) << "of numbers";
}
''')
  subprocess.run(['g++', '-std=c++17', f'-I{ninja_file.HEADERS}', '-o', program,
                  program.with_suffix('.cc')], check=True, timeout=60)

  def run(argument):
    ran = subprocess.run([program, argument], capture_output=True, text=True)
    return ran.returncode, [
        line.partition('] ')[::2] for line in ran.stderr.splitlines()]
  code, lines = run('quietly')
  assert code == 1
  assert [text for _, text in lines] == ['one 1', 'else', 'end']
  assert [head[0] for head, _ in lines] == ['I', 'W', 'F']
  code, lines = run('aloud')
  assert code == -6  # SIGABRT.
  assert lines[-1][1] == 'Check failed: (1) > (2) of numbers'


def test_missing_pkg_config_is_told_with_a_remedy(monkeypatch, tmp_path):
  monkeypatch.setenv('PATH', str(tmp_path))
  with pytest.raises(build_files.BuildFileError,
                     match='no program pkg-config; install what docs/dmlab.md'):
    ninja_file.system_library('@zlib_archive//:zlib')
