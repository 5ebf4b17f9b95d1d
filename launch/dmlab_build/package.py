"""The Python package deepmind_lab, put together from sources and binaries.

Its files are those of Lab's own wheel (python/pip_package in the sources): the
runfiles of //:deepmind_lab.so, whose lists are in the BUILD file. Run as a
program by build.ninja.
"""

import hashlib
import os
import pathlib
import shutil
import sys
from typing import Dict, List
import zipfile

from launch.dmlab_build import build_files
from launch.dmlab_build import ninja_file

NAME = 'deepmind_lab'
# In the package: a digest of all that is in it.
BUILD_ID = 'build_id.txt'
# Where it is put together, in the directory of the build.
DIRECTORY = 'package'

# Lab's own imports modules that Python 3.12 and later setuptools lack. The
# native module takes the package's place since its class looks itself up there.
_INIT = '''\
"""DeepMind Lab; docs/users/python_api.md of its sources explains it."""

import importlib.util as _util
import os as _os
import sys as _sys

_spec = _util.spec_from_file_location(
    __name__, _os.path.join(_os.path.dirname(_os.path.abspath(__file__)),
                            'deepmind_lab.so'))
_native = _util.module_from_spec(_spec)
_native.__path__ = __path__  # For deepmind_lab.dmenv_module.
_sys.modules[__name__] = _native
_spec.loader.exec_module(_native)
'''

# Lists of the BUILD file: what their paths begin with there, and in baselab/.
_PLAIN = {
    '//:game_script_assets': ('', ''),
    '//:non_pk3_assets': ('assets/', ''),
    '//:built_maps': ('assets/maps/built/', 'maps/'),
}
# Likewise for archives in baselab/.
_ARCHIVES = {
    '//:assets_pk3': ('assets.pk3', 'assets/'),
    '//:assets_oa_pk3': ('assets_oa.pk3', 'assets_oa/'),
    '//:assets_bots_pk3': ('assets_bots.pk3', 'assets_oa/'),
}
_BYTECODE = '//:vm_pk3'


class Contents:
  """Files of the package, as far as the sources have them.

  Attributes:
    files: place in the package -> path.
    archives: place in the package -> name in the archive -> path. Paths that
      are made by the build are relative to its directory.
  """

  def __init__(self, source: pathlib.Path):
    """Reads the lists; raises BuildFileError where they are missing."""
    workspace = build_files.Workspace(source)

    def listed(label, prefix):
      return {path[len(prefix):]: str(source / path)
              for path in workspace.files(workspace.target(label))}

    self.files: Dict[str, str] = {
        **{place: str(source / path) for place, path in (
            ('LICENSE', 'LICENSE'),
            ('dmenv_module.py', 'python/dmenv_module.py'),
            *[('deepmind/level_generation/compile_map.sh',) * 2])},
        **{place: place for place in ninja_file.BINARIES.values()}}
    for label, (prefix, place) in _PLAIN.items():
      self.files.update({f'baselab/{place}{name}': path
                         for name, path in listed(label, prefix).items()})
    self.archives: Dict[str, Dict[str, str]] = {
        f'baselab/{name}': listed(label, prefix)
        for label, (name, prefix) in _ARCHIVES.items()}
    self.archives['baselab/vm.pk3'] = {
        f'vm/{pathlib.PurePath(path).name}': f'gen/{path}'
        for path in workspace.files(workspace.target(_BYTECODE))}

  def inputs(self) -> List[str]:
    """Lists all paths."""
    return [*self.files.values(), *(
        path for names in self.archives.values() for path in names.values())]

  def digest(self, build: pathlib.Path) -> str:
    """Returns a digest of all files and of their places.

    Args:
      build: directory of the build, where all binaries are.
    """
    digest = hashlib.sha256(_INIT.encode())
    for place, names in (('', self.files), *self.archives.items()):
      for name, path in names.items():
        digest.update(f'{place} {name}\n'.encode())
        digest.update(hashlib.sha256((build / path).read_bytes()).digest())
    return digest.hexdigest()


def pack(source: pathlib.Path, build: pathlib.Path) -> None:
  """Puts the package together, whole or not at all.

  Args:
    source: Lab's sources.
    build: directory of the build, where all binaries are.
  """
  contents = Contents(source)
  build_id = f'{contents.digest(build)}\n'
  new = build / f'{DIRECTORY}.new'
  shutil.rmtree(new, ignore_errors=True)
  for place, path in contents.files.items():
    target = new / NAME / place
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(build / path, target)
    if os.access(build / path, os.X_OK):
      target.chmod(0o755)
  for place, names in contents.archives.items():
    with zipfile.ZipFile(new / NAME / place, 'w', zipfile.ZIP_DEFLATED,
                         strict_timestamps=False) as archive:
      for name, path in names.items():
        archive.write(build / path, name)
  (new / NAME / '__init__.py').write_text(_INIT)
  (new / NAME / BUILD_ID).write_text(build_id)
  shutil.rmtree(build / DIRECTORY, ignore_errors=True)
  new.rename(build / DIRECTORY)
  (build / ninja_file.PACKED).write_text(build_id)


def is_installed(build: pathlib.Path, site: pathlib.Path) -> bool:
  """Tells whether the package of this build is in a directory of packages."""
  return _build_id(site / NAME) == _build_id(build / DIRECTORY / NAME)


def install(build: pathlib.Path, site: pathlib.Path) -> None:
  """Copies the package into a directory of packages, whole or not at all.

  Args:
    build: directory of the build, where the package is.
    site: directory of packages; what was installed there is replaced.
  """
  package, installed = build / DIRECTORY / NAME, site / NAME
  for left in site.glob(f'.{NAME}.*'):  # By one that was killed.
    shutil.rmtree(left)
  new, old = site / f'.{NAME}.new', site / f'.{NAME}.old'
  shutil.copytree(package, new)
  if installed.exists():
    installed.rename(old)
  new.rename(installed)
  shutil.rmtree(old, ignore_errors=True)


def _build_id(package: pathlib.Path) -> str:
  try:
    return (package / BUILD_ID).read_text()
  except OSError:
    return ''


if __name__ == '__main__':
  pack(pathlib.Path(sys.argv[1]), pathlib.Path.cwd())
