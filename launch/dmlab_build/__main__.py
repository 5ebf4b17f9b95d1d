"""The second half of launch/install_dmlab.sh: build, try and install."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Sequence

from launch.dmlab_build import build_files
from launch.dmlab_build import ninja_file
from launch.dmlab_build import package
from launch.dmlab_build import sources

_TRIAL_TIMEOUT_SECS = 600
# It compiles a map, and so needs all programs of the package and `zip`.
_TRIAL = '''
import sys
import numpy as np
import deepmind_lab
lab = deepmind_lab.Lab(
    'contributed/dmlab30/explore_goal_locations_small', ['RGB_INTERLEAVED'],
    config={'width': '96', 'height': '72', 'logLevel': 'WARN'},
    renderer='software', temp_folder=sys.argv[1])
lab.reset(seed=1)
lab.step(np.array([0, 0, 0, 1, 0, 0, 0], np.intc), num_steps=4)
picture = lab.observations()['RGB_INTERLEAVED']
assert picture.shape == (72, 96, 3) and picture.std() > 1, 'it draws nothing'
lab.close()
'''


class _Failed(Exception):
  """A step that failed: one line with cause and remedy."""


def _tell(line: str) -> None:
  print(f'install_dmlab: {line}', file=sys.stderr, flush=True)


def _describe(source: pathlib.Path, commit: str) -> None:
  """Prints how the sources differ from those that are known to do."""
  found = sources.commit(source)
  if found not in (None, commit):
    _tell(f'{source} is at {found[:7]}; {commit[:7]} is what was tried')
  missing = sources.missing_files(source)
  if missing is None and (source / '.git').exists():
    _tell(f'cannot tell which files {source} lacks: git fails there; see what '
          f'`git -C {source} status` says')
  if not missing:
    return
  maps = sum(path.endswith('.bsp') for path in missing)
  textures = sum(path.endswith('.tga') for path in missing)
  _tell(f'{source} lacks {len(missing)} files that its commit has: {maps} maps '
        f'and {textures} textures; `git ls-files --deleted` there lists them, '
        'and a clone of the public repository has them; scores on levels that '
        'show them otherwise do not compare with published ones')
  for level, count in sources.levels_without_maps(source, missing).items():
    _tell(f'dmlab30/{level} cannot be played: {count} of its maps are missing')


def _remember(source: pathlib.Path, build: pathlib.Path) -> None:
  """Leaves a link for the next installation that is not told of sources."""
  link = build / 'named'
  link.unlink(missing_ok=True)
  link.symlink_to(source.absolute())


def _logged(what: str, command: Sequence[str], log: pathlib.Path,
            **kwargs) -> None:
  """Runs a command with its output in the log; raises _Failed with a cause."""
  with open(log, 'ab') as file:
    begin = file.tell()
    try:
      code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file,
                            stderr=file, **kwargs).returncode
    except subprocess.TimeoutExpired as error:
      raise _Failed(f'{what} was not done after {error.timeout:.0f} s; the '
                    f'whole log is {log}') from error
    except FileNotFoundError as error:
      raise _Failed(f'{what} failed: there is no {command[0]}; install '
                    'what docs/dmlab.md lists') from error
  if code:
    text = log.read_bytes()[begin:].decode(errors='replace')
    raise _Failed(
        f'{what} failed: {_cause(text, code)}; the whole log is {log}')


def _cause(text: str, code: int) -> str:
  """Returns the first line with an error, or else the last line."""
  # Ninja's own lines that say nothing of the cause.
  noise = r'\[\d+/\d+\] |ninja: (Entering|build stopped: subcommand)'
  lines = [line.strip() for line in text.splitlines()
           if line.strip() and not re.match(noise, line)]
  for line in lines:
    if re.search(r'\berror: |: undefined reference |: cannot find ', line):
      return line
  return lines[-1] if lines else f'exit code {code}'


def _install(source: pathlib.Path, build: pathlib.Path, commit: str,
             log: pathlib.Path) -> None:
  """Builds what has not been built, and installs what is not installed."""
  if not sources.is_lab(source):
    raise build_files.BuildFileError(
        f'{source} has no sources of DeepMind Lab (no {sources.MARK}); give '
        'a checkout of https://github.com/google-deepmind/lab')
  _remember(source, build)
  _describe(source, commit)
  # Ninja itself sees which commands have changed since the last time.
  ninja = ninja_file.of_lab(source)
  ninja.packed([*package.Contents(source).inputs(), package.__file__],
               [sys.executable, '-m', package.__name__, str(source)])
  ninja.write(build)
  cores = len(os.sched_getaffinity(0))
  _tell(f'building in {build} on {cores} cores; from nothing it takes '
        f'minutes (log: {log})')
  _logged('building', ['ninja', '-C', str(build), f'-j{cores}'], log)
  site = pathlib.Path(sysconfig.get_path('platlib'))
  if package.is_installed(build, site):
    _tell(f'{package.NAME} is installed already, in {site}')
    return
  _tell('trying it: a map is compiled and played on')
  scratch = build / 'trial'
  shutil.rmtree(scratch, ignore_errors=True)  # By one that was killed.
  scratch.mkdir()
  try:
    _logged('trying what was built',
            [sys.executable, '-c', _TRIAL, str(scratch)], log, cwd=build,
            timeout=_TRIAL_TIMEOUT_SECS,
            env={**os.environ, 'PYTHONPATH': str(build / package.DIRECTORY),
                 'LP_NUM_THREADS': '0'})  # No thread for each core.
  finally:
    shutil.rmtree(scratch, ignore_errors=True)
  package.install(build, site)
  _tell(f'{package.NAME} is installed in {site}; '
        'try ./launch/train.sh configs/dmlab30/rooms_watermaze.gin')


def main() -> int:
  """Returns the exit code."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('source', type=pathlib.Path, help="Lab's sources")
  parser.add_argument('build', type=pathlib.Path, help='where to build')
  parser.add_argument('--commit', required=True, help='the one that was tried')
  parser.add_argument('--log', required=True, type=pathlib.Path)
  args = parser.parse_args()
  try:
    _install(args.source, args.build, args.commit, args.log)
  except build_files.BuildFileError as error:
    _tell(f'error: {error}')
    return 2
  except (_Failed, OSError) as error:
    _tell(f'error: {error}')
    return 1
  except KeyboardInterrupt:
    _tell('interrupted; the same command goes on')
    return 130
  return 0


if __name__ == '__main__':
  sys.exit(main())
