"""Tests of the build as a program, on a tiny tree with real compilers."""

import os
import re
import subprocess
import sys
import sysconfig

import pytest

from launch.dmlab_build import __main__ as main_lib
from tests.fixtures import programs
from tests.fixtures import tiny_lab

pytestmark = tiny_lab.needs_compiler


@pytest.fixture(name='site')
def _site(tmp_path, monkeypatch):
  """Returns the directory that packages are installed into."""
  site = tmp_path / 'site'
  site.mkdir()
  real = sysconfig.get_path
  monkeypatch.setattr(sysconfig, 'get_path', lambda name, *args: (
      str(site) if name == 'platlib' else real(name, *args)))
  monkeypatch.setenv('PYTHONPATH', str(programs.ROOT))  # As setup.sh does.
  # It has no level to be played.
  monkeypatch.setattr(main_lib, '_TRIAL', 'import deepmind_lab')
  return site


def _install(tmp_path, monkeypatch, capfd):
  """Runs the program; returns exit code and the lines that it printed."""
  build = tmp_path / 'build'
  build.mkdir(exist_ok=True)
  (build / 'install.log').write_text('')
  monkeypatch.setattr(sys, 'argv', [
      'dmlab_build', str(tmp_path / 'source'), str(build),
      '--commit=0123456789', f'--log={build / "install.log"}'])
  code = main_lib.main()
  printed = capfd.readouterr()
  assert printed.out == ''
  return code, printed.err.splitlines()


def _times(directory):
  return {path: path.stat().st_mtime_ns for path in directory.rglob('*')
          if path.suffix in ('.o', '.so', '.pk3', '.qvm')}


def test_second_run_does_nothing(tmp_path, site, monkeypatch, capfd):
  tiny_lab.write(tmp_path / 'source')
  trial = tmp_path / 'build' / 'trial'
  (trial / 'half').mkdir(parents=True)  # Of one that was killed.
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 0, lines
  assert lines[-1].startswith(
      f'install_dmlab: deepmind_lab is installed in {site}; try ')
  assert not trial.exists()
  before = _times(tmp_path)
  assert any(site in path.parents for path in before) and len(before) > 20
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 0
  assert 'is installed already' in lines[-1]
  assert _times(tmp_path) == before


def test_sources_are_remembered_once_they_are_known_for_labs(
    tmp_path, site, monkeypatch, capfd):
  source, link = tmp_path / 'source', tmp_path / 'build' / 'named'
  source.mkdir()
  assert _install(tmp_path, monkeypatch, capfd)[0] == 2
  assert not link.is_symlink()
  source.rmdir()
  (tiny_lab.write(source) / 'dagcheck.md').unlink()  # It cannot be built.
  for _ in range(2):
    assert _install(tmp_path, monkeypatch, capfd)[0] == 1
    assert link.readlink() == source


def test_maps_that_come_or_change_with_an_old_time_are_installed(
    tmp_path, site, monkeypatch, capfd):
  maps = tiny_lab.write(tmp_path / 'source') / 'assets/maps/built'
  assert _install(tmp_path, monkeypatch, capfd)[0] == 0
  for name in ('arena.bsp', 'forage_002.bsp'):
    (maps / name).write_text('new')
    os.utime(maps / name, (0, 0))  # As `cp -a` does.
    assert _install(tmp_path, monkeypatch, capfd)[0] == 0
    assert (site / 'deepmind_lab/baselab/maps' / name).read_text() == 'new'


def test_failure_is_one_line_and_installs_nothing(
    tmp_path, site, monkeypatch, capfd):
  source = tiny_lab.write(tmp_path / 'source')
  good = (source / 'q3map2/main.c').read_text()
  (source / 'q3map2/main.c').write_text('#include <no_such_header.h>\n')
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 1
  assert 'building failed: ' in lines[-1] and 'no_such_header.h' in lines[-1]
  assert f'log is {tmp_path / "build" / "install.log"}' in lines[-1]
  assert list(site.iterdir()) == []
  # Built, but of no use.
  (source / 'q3map2/main.c').write_text(good)
  monkeypatch.setattr(main_lib, '_TRIAL', 'raise SystemExit("no picture")')
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 1 and 'trying what was built failed: no pic' in lines[-1]
  assert list(site.iterdir()) == []
  # Another try succeeds once the cause is gone.
  monkeypatch.setattr(main_lib, '_TRIAL', 'import deepmind_lab')
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 0 and (site / 'deepmind_lab' / 'bspc').exists()
  assert [path.name for path in site.iterdir()] == ['deepmind_lab']


def test_source_that_is_missing_is_the_cause(
    tmp_path, site, monkeypatch, capfd):
  (tiny_lab.write(tmp_path / 'source') / 'dagcheck.md').unlink()
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 1 and list(site.iterdir()) == []
  assert re.search('building failed: .*dagcheck.md.* missing', lines[-1])


def test_maps_that_are_missing_are_named_with_their_levels(
    tmp_path, site, monkeypatch, capfd):
  source = tiny_lab.write(tmp_path / 'source')
  for words in ('init --quiet', 'add --all',
                '-c user.name=A -c user.email=a@b commit --quiet -m All'):
    subprocess.run(['git', *words.split()], cwd=source, check=True)
  (source / 'assets/maps/built/forage_001.bsp').unlink()
  (source / 'assets/textures/wall/blue_d.tga').unlink()
  monkeypatch.setenv('PATH', f'{tmp_path}:/usr/bin:/bin')
  ninja = tmp_path / 'ninja'  # What is built is of no matter here.
  ninja.write_text('#!/bin/sh\necho stopped; exit 1\n')
  ninja.chmod(0o755)
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 1 and 'building failed: stopped' in lines[-1]
  about_commit, about_files, about_level, *_ = lines
  assert re.search('is at .*; 0123456 is what was tried', about_commit)
  assert 'lacks 2 files' in about_files
  assert '1 maps and 1 textures' in about_files
  assert about_level == ('install_dmlab: dmlab30/natlab_varying cannot be '
                         'played: 1 of its maps are missing')


def test_another_directory_is_refused(tmp_path, site, monkeypatch, capfd):
  (tmp_path / 'source').mkdir()
  code, lines = _install(tmp_path, monkeypatch, capfd)
  assert code == 2
  line, = lines
  assert f'{tmp_path / "source"} has no sources of DeepMind Lab' in line
