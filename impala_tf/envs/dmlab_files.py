"""Files of DeepMind Lab: compiled maps, scratch files and data sets.

Lab ends the whole process if a file is missing, so files are checked first.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid
import zipfile

from impala_tf import config as config_lib
from impala_tf.runtime import child
from impala_tf.storage import files

# Tens of thousands of maps, more than most runs see.
_MAX_CACHE_BYTES = 5 * 10**9
# A copy that has not become whole by then never will.
_STALE_SECS = 3600.
# Photographs of brady_konkle_oliva2008, 0001.png and so on (its README.md is in
# Lab's data/, and Lab's game_scripts/datasets/).
_NUM_PHOTOGRAPHS = 2400

# Maps that are no source text but come compiled, and that copies of Lab's
# sources may lack, since they are large. Lab has all others.
_LARGE_MAPS = {
    'natlab_fixed_large_map': tuple(
        f'natlab_forage_ltm_{time}' for time in ('dawn', 'day', 'night')),
    'natlab_varying_map_randomized': tuple(
        f'natlab_forage_variable_{i:03d}' for i in range(100)),
    'natlab_varying_map_regrowth': tuple(
        f'natlab_forage_stm_{i:03d}' for i in range(100)),
}


class LevelCache:
  """A cache of compiled maps in a directory that processes may share.

  Many levels make new maps, whose compilation delays their episodes. Lab asks
  the cache first and hands it each new map. A key, the file's name, is the
  map's name with a digest of its source, but not of the textures that light it;
  see `compilation_digest`.

  A cache of 5 GB stays as it is until files are removed. If it cannot be read
  or written, one warning says so, and maps are compiled.
  """

  def __init__(self, directory: str, max_bytes: int = _MAX_CACHE_BYTES):
    """Makes the directory; raises ConfigError if that fails."""
    self._max_bytes = max_bytes
    try:
      self._directory = pathlib.Path(directory).expanduser()
      self._directory.mkdir(parents=True, exist_ok=True)
      for path in self._directory.glob('.*.part'):
        with contextlib.suppress(OSError):  # It became whole, or is not ours.
          if path.stat().st_mtime < time.time() - _STALE_SECS:
            path.unlink()
    except (OSError, RuntimeError) as error:  # No home directory is the latter.
      raise config_lib.ConfigError(
          f'DmlabConfig.level_cache_dir: {directory} cannot be used: {error}; '
          'name another directory, or None for no cache') from error
    self._has_warned = False

  def fetch(self, key: str, pk3_path: str) -> bool:
    """Copies a cached map to `pk3_path`; returns whether the cache has it."""
    try:
      shutil.copyfile(self._directory / key, pk3_path)
      return True
    except OSError as error:
      if not isinstance(error, FileNotFoundError):
        self._warn(error)
      return False

  def write(self, key: str, pk3_path: str) -> None:
    """Copies a new map from `pk3_path` to the cache, unless that is full."""
    path = self._directory / key
    # Renamed when it is whole, so that no process fetches half of it. Processes
    # that write one map at once write the same bytes to different files.
    temporary = self._directory / f'.{key}.{uuid.uuid4().hex}.part'
    try:
      if path.exists() or self._max_bytes < sum(
          whole.stat().st_size for whole in self._directory.glob('[!.]*')):
        return
      try:
        shutil.copyfile(pk3_path, temporary)
        with open(temporary, 'rb') as file:
          os.fsync(file.fileno())  # Else a power cut may leave an empty map.
        temporary.replace(path)
      finally:
        temporary.unlink(missing_ok=True)
    except OSError as error:
      self._warn(error)

  def _warn(self, error: OSError):
    if not self._has_warned:
      child.remark(
          f'DmlabConfig.level_cache_dir: {files.one_line(error, None)}; maps '
          'that cannot be kept are compiled again')
    self._has_warned = True


class Scratch:
  """A scratch directory, which is removed when this process ends in any way.

  Simulators write maps there. Their own directories would stay behind if Lab or
  a signal ended the process.
  """

  # `read` ends with the pipe, which the kernel closes with this process. A map
  # compiler may live on for a moment and begin a last directory.
  _REMOVE_AFTERWARDS = ('read -r _; rm -rf -- "$0"; sleep 2; rm -rf -- "$0"')

  def __init__(self):
    self._path = tempfile.mkdtemp(prefix='impala_tf_dmlab_')
    # A new session, which signals to this process's group do not reach, and
    # without the marks by which `leftovers` kills what a program has started.
    self._remover = subprocess.Popen(
        ['sh', '-c', self._REMOVE_AFTERWARDS, self._path],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
        env={'PATH': os.environ.get('PATH', os.defpath)})

  def make(self) -> str:
    """Makes a directory within the scratch directory; returns its path."""
    return tempfile.mkdtemp(dir=self._path)

  def close(self) -> None:
    """Removes the directory; may be called twice."""
    shutil.rmtree(self._path, ignore_errors=True)
    self._remover.kill()
    self._remover.communicate()


def compilation_digest(runfiles_path: str) -> str:
  """Returns a digest of the compilers and textures of a Lab directory."""
  root, digest = pathlib.Path(runfiles_path), hashlib.sha256()
  for name in ('bspc', 'q3map2/q3map2',
               'deepmind/level_generation/compile_map.sh'):
    if (root / name).exists():
      digest.update(f'{name}\n'.encode() + (root / name).read_bytes())
  for path in sorted((root / 'baselab').glob('assets*.pk3')):
    with zipfile.ZipFile(path) as archive:
      digest.update(repr(sorted(
          (file.filename, file.CRC, file.file_size)
          for file in archive.infolist())).encode())
  return digest.hexdigest()[:16]


def check_dataset(path: str) -> None:
  """Raises ConfigError unless `path` is 'dummy' or has all photographs.

  It is a directory of photographs, or 'dummy': plain colours in their place.
  """
  if path == 'dummy':
    return
  names = [f'{i + 1:04d}.png' for i in range(_NUM_PHOTOGRAPHS)]
  try:
    missing = sorted(set(names) - set(os.listdir(path)))
  except OSError as error:
    raise config_lib.ConfigError(
        f'DmlabConfig.dataset_path: {path} cannot be read: {error}') from error
  if missing:
    raise config_lib.ConfigError(
        f'DmlabConfig.dataset_path: {path} lacks {len(missing):,d} of the '
        f'{_NUM_PHOTOGRAPHS:,d} photographs {names[0]} to {names[-1]}, such as '
        f'{missing[0]}; prepare them as data/brady_konkle_oliva2008/README.md '
        "of Lab's sources says, or set it to 'dummy' for plain colours")


def check_maps(name: str, runfiles_path: str) -> None:
  """Raises ConfigError if Lab's directory lacks maps that a level needs.

  `name` is the level's without 'dmlab30/'.
  """
  maps = pathlib.Path(runfiles_path, 'baselab', 'maps')
  wanted = _LARGE_MAPS.get(name, ())
  missing = [m for m in wanted if not (maps / f'{m}.bsp').exists()]
  if missing:
    raise config_lib.ConfigError(
        f'dmlab30/{name}: the installed DeepMind Lab lacks {len(missing)} of '
        f"the level's {len(wanted)} maps, such as {missing[0]}.bsp; leave the "
        'level out, or install Lab from sources that have them '
        '(docs/dmlab.md)')
