"""A directory of DeepMind Lab's sources: whether it is one, and what it lacks.

Some copies of the repository leave out its largest files, which are maps and
textures. Lab is built without them, and ends the whole process where a level
asks for a map that is not there.
"""

import pathlib
import re
import subprocess
from typing import Dict, List, Optional, Sequence

# Lab is recognised by it.
MARK = 'python/dmlab_module.c'
_MAPS = 'assets/maps/built'
_LEVELS = 'game_scripts/levels/contributed/dmlab30'


def is_lab(source: pathlib.Path) -> bool:
  """Tells whether a directory has Lab's sources."""
  return (source / MARK).is_file() and (source / 'BUILD').is_file()


def commit(source: pathlib.Path) -> Optional[str]:
  """Returns the commit that is checked out; None where git cannot tell."""
  lines = _git(source, 'rev-parse', 'HEAD')
  return lines[0] if lines else None


def missing_files(source: pathlib.Path) -> Optional[List[str]]:
  """Lists files that the commit has and the directory lacks.

  Args:
    source: Lab's sources.

  Returns:
    Paths relative to the sources; None where git cannot tell.
  """
  lines = _git(source, 'ls-files', '--deleted')
  if lines is None:
    return None
  return [path for path in lines if path.startswith('assets/')]


def levels_without_maps(source: pathlib.Path,
                        missing: Sequence[str]) -> Dict[str, int]:
  """Counts the maps that levels of DMLab-30 lack.

  Args:
    source: Lab's sources.
    missing: files that it lacks.

  Returns:
    Name of the level -> number of its maps that are missing, for those that
    miss some. A level names each of its maps, or all by what they begin with.
  """
  maps = [pathlib.PurePath(path).stem for path in missing
          if path.startswith(_MAPS) and path.endswith('.bsp')]
  found = {}
  for level in sorted((source / _LEVELS).glob('*.lua')):
    named = set(re.findall(r'["\'](\w+)["\']', level.read_text()))
    count = sum(name in named or re.sub(r'\d+$', '', name) in named
                for name in maps)
    if count:
      found[level.stem] = count
  return found


def _git(source: pathlib.Path, *arguments: str) -> Optional[List[str]]:
  """Returns the lines git prints; None where it fails or knows another tree."""
  if not (source / '.git').exists():
    return None
  try:
    ran = subprocess.run(
        # They may be another user's, since they are only read.
        ['git', '-c', 'safe.directory=*', '-c', 'core.quotePath=off',
         *arguments], cwd=source,
        stdin=subprocess.DEVNULL, capture_output=True, text=True)
  except FileNotFoundError:
    return None
  return ran.stdout.splitlines() if ran.returncode == 0 else None
