"""Tests of the package: what is in it, and that it is whole or not there."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from launch.dmlab_build import ninja_file
from launch.dmlab_build import package
from tests.fixtures import tiny_lab

_MADE = (*ninja_file.BINARIES.values(), 'gen/engine/code/cgame/cgame.map',
         'gen/engine/code/cgame/cgame.qvm')


@pytest.fixture(name='tree')
def _tree(tmp_path):
  """Returns sources, and a directory with what a build would make of them."""
  source, build = tiny_lab.write(tmp_path / 'source'), tmp_path / 'build'
  for name in _MADE:
    path = build / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
    path.chmod(0o755)
  return source, build


def _files(directory):
  return {path.relative_to(directory).as_posix()
          for path in directory.rglob('*') if path.is_file()}


def test_files_are_where_lab_looks_for_them(tree):
  source, build = tree
  package.pack(source, build)
  packed = build / 'package' / 'deepmind_lab'
  levels = 'baselab/game_scripts/levels/contributed/dmlab30'
  assert _files(packed) == {
      '__init__.py', 'LICENSE', 'baselab/assets.pk3', 'baselab/assets_bots.pk3',
      'baselab/assets_oa.pk3', 'baselab/default.cfg', 'baselab/maps/arena.bsp',
      'baselab/maps/forage_000.bsp', 'baselab/maps/forage_001.bsp',
      'baselab/vm.pk3', 'bspc', 'build_id.txt', 'deepmind_lab.so',
      'deepmind/level_generation/compile_map.sh', 'dmenv_module.py',
      f'{levels}/arena_one.lua', f'{levels}/natlab_varying.lua',
      'libdmlab_headless_hw.so', 'libdmlab_headless_sw.so', 'q3map2/q3map2'}
  assert (packed / 'baselab/maps/forage_001.bsp').read_text() == 'forage 1'
  assert os.access(packed / 'deepmind/level_generation/compile_map.sh', os.X_OK)
  assert os.access(packed / 'q3map2/q3map2', os.X_OK)
  names = {path.stem: set(zipfile.ZipFile(path).namelist())
           for path in (packed / 'baselab').glob('*.pk3')}
  assert names == {
      'assets': {'textures/wall/blue_d.tga'},
      'assets_bots': {'botfiles/bot.c'}, 'assets_oa': {'scripts/list.txt'},
      'vm': {'vm/cgame.map', 'vm/cgame.qvm'}}


def test_every_file_that_is_packed_is_an_input(tree):
  """Else a change of it would not be packed."""
  source, build = tree
  inputs = package.Contents(source).inputs()
  of_source = {str(pathlib.Path(path).relative_to(source))
               for path in inputs if os.path.isabs(path)}
  assert {'assets/textures/wall/blue_d.tga', 'assets/default.cfg',
          'assets/maps/built/arena.bsp', 'LICENSE'} <= of_source
  assert {path for path in inputs if not os.path.isabs(path)} == set(_MADE)


def test_package_that_cannot_be_packed_leaves_the_one_before(tree):
  source, build = tree
  package.pack(source, build)
  (build / 'bspc').unlink()
  with pytest.raises(FileNotFoundError):
    package.pack(source, build)
  assert (build / 'package' / 'deepmind_lab' / 'bspc').exists()
  (build / 'bspc').write_text('new')
  package.pack(source, build)
  assert (build / 'package/deepmind_lab/bspc').read_text() == 'new'
  assert not (build / 'package.new').exists()


def test_installed_package_is_replaced_whole_by_another_build(tree, tmp_path):
  source, build = tree
  site = tmp_path / 'site'
  (site / '.deepmind_lab.new' / 'half').mkdir(parents=True)  # Of a killed one.
  package.pack(source, build)
  assert not package.is_installed(build, site)
  package.install(build, site)
  assert package.is_installed(build, site)
  assert _files(site / 'deepmind_lab') == _files(build / 'package/deepmind_lab')
  package.pack(source, build)
  assert package.is_installed(build, site)  # The same again.
  (source / 'assets/maps/built/arena.bsp').unlink()
  package.pack(source, build)
  assert not package.is_installed(build, site)
  package.install(build, site)
  assert package.is_installed(build, site)
  assert not (site / 'deepmind_lab/baselab/maps/arena.bsp').exists()
  assert [path.name for path in site.iterdir()] == ['deepmind_lab']


@tiny_lab.needs_compiler
def test_native_module_takes_the_place_of_the_package(tree, tmp_path):
  """Lab's class looks itself up there; its other module is imported too."""
  source, build = tree
  ninja_file.of_lab(source).write(build)
  for name in _MADE:
    (build / name).unlink()
  subprocess.run(['ninja', '-C', build], check=True, capture_output=True)
  package.pack(source, build)
  ran = subprocess.run(
      [sys.executable, '-c', 'import deepmind_lab, sys\n'
       'assert sys.modules["deepmind_lab"] is deepmind_lab\n'
       'from deepmind_lab import dmenv_module\n'
       'print(deepmind_lab.__file__, deepmind_lab.Lab.__name__)'],
      env={**os.environ, 'PYTHONPATH': str(build / 'package')},
      capture_output=True, text=True, timeout=60)
  assert ran.returncode == 0, ran.stderr
  assert ran.stdout.split()[-1] == 'Lab'
  assert ran.stdout.startswith(str(build / 'package/deepmind_lab'))
