"""Tests of BUILD files, on a tree with the rules that Lab uses."""

import pytest

from launch.dmlab_build import build_files
from tests.fixtures import tiny_lab


@pytest.fixture(name='workspace')
def _workspace(tmp_path):
  return build_files.Workspace(tiny_lab.write(tmp_path / 'the sources'))


def test_attributes_are_values_of_the_file(workspace):
  target = workspace.target('//:engine')
  assert (target.rule, target.label) == ('cc_library', '//:engine')
  # Without what is excluded; and of `select` what holds without any flag.
  assert target.list_of('srcs') == ['engine/code/engine.c']
  assert target.list_of('deps') == ['//deepmind/lua', ':dmlab.lds']
  assert target.list_of('copts') == ["'-DTEXT=\"a b\"'"]
  assert target.list_of('linkopts') == []


@pytest.mark.parametrize('label, package, full', [
    ('//deepmind/lua', '', '//deepmind/lua:lua'),
    ('//deepmind/lua:lua', 'q3map2', '//deepmind/lua:lua'),
    (':lua', 'deepmind/lua', '//deepmind/lua:lua'),
    ('lua', 'deepmind/lua', '//deepmind/lua:lua'),
    ('//:libdmlab_headless_hw.so', 'q3map2', '//:libdmlab_headless_hw.so')])
def test_label_is_found_in_each_form(workspace, label, package, full):
  assert workspace.target(label, package).label == full


def test_closure_has_each_dependency_once_and_other_repositories(workspace):
  (workspace.source / 'BUILD').write_text('''
cc_binary(name = "a", deps = [":b", ":c", "@x//:y"])
cc_library(name = "b", deps = [":c"])
cc_library(name = "c", deps = ["@z//:z", "file.lds"])
''')
  closure = list(workspace.closure(workspace.target('//:a')))
  assert [(t.name, others) for t, others in closure] == [
      ('a', ['@x//:y']), ('b', []), ('c', ['@z//:z'])]


def test_files_stand_for_sources_and_outputs_of_targets(workspace):
  (workspace.source / 'deepmind/lua/BUILD').write_text('''
filegroup(name = "all", srcs = ["a.c", ":some", ":made", "//:b.c"])
filegroup(name = "some", srcs = ["s.c"])
genrule(name = "made", srcs = ["m.md"], outs = ["m.c", "m.h"])
''')
  assert workspace.files(workspace.target('//deepmind/lua:all')) == [
      'deepmind/lua/a.c', 'deepmind/lua/s.c', 'deepmind/lua/m.c',
      'deepmind/lua/m.h', 'b.c']


@pytest.mark.parametrize('text, words', [
    (None, 'cannot read .*BUILD: No such file'),
    ('cc_library(', 'BUILD: SyntaxError'),
    ('x = [1][2]', 'BUILD: IndexError'),
    ('open("/etc/passwd").read()', "BUILD: AttributeError"),
    ('y = select({":linux": []})', r'select\(\) without //conditions:default'),
    ('cc_library(name = "b")', 'BUILD declares no a')])
def test_file_that_cannot_be_used_is_named_with_the_cause(
    tmp_path, text, words):
  if text is not None:
    (tmp_path / 'BUILD').write_text(text)
  with pytest.raises(build_files.BuildFileError, match=words) as error:
    build_files.Workspace(tmp_path).target('//:a')
  assert str(tmp_path) in str(error.value) and '\n' not in str(error.value)
