"""Files that come with the package: configs and agents.

A clone has them in configs/ and testdata/agents/, a package in configs/ and
box/.
"""

import difflib
import os
import pathlib
import re

from impala_tf import config as config_lib

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_IS_INSTALLED = (_PACKAGE / 'configs').is_dir()
# The directory from which .gin files include 'configs/…'.
ROOT = _PACKAGE if _IS_INSTALLED else _PACKAGE.parent
_CONFIGS = ROOT / 'configs'
_AGENTS = ROOT / ('box' if _IS_INSTALLED else 'testdata/agents')
# Directories within configs/ whose files are not configs of single runs.
SWEEPS = 'sweeps'
POPULATIONS = 'populations'


def config_names(kind: str = '') -> list[str]:
  """Lists names of shipped configs: of single runs, SWEEPS or POPULATIONS."""
  directory = _CONFIGS / kind
  paths = [path.relative_to(directory) for path in directory.rglob('*.gin')]
  return sorted(path.with_suffix('').as_posix() for path in paths
                if kind or path.parts[0] not in (SWEEPS, POPULATIONS))


def find_config(path: str, kind: str = '') -> str:
  """Returns the path of a .gin file, given as a path or a shipped name.

  A path counts from the working directory, or from the one that holds configs/;
  a name is such as 'atari/pong'; for `kind` see `config_names`. Raises
  ConfigError with the nearest name.
  """
  name = f'{path}.gin'
  for candidate in (path, ROOT / path, _CONFIGS / kind / name, _CONFIGS / name):
    if os.path.isfile(candidate):
      return str(candidate)
  wanted = re.sub(r'^configs/|\.gin$', '', path)
  names = config_names(kind)
  near = [name for name in names
          if name.rpartition('/')[2] == wanted.rpartition('/')[2]]
  near = near or difflib.get_close_matches(wanted, names, n=1)
  remedy = (f'did you mean {" or ".join(near)}?' if near else
            f'name a .gin file, or one of those in {_CONFIGS / kind}')
  raise config_lib.ConfigError(f'there is no file {path}; {remedy}')


def find_agent(run_dir: str | os.PathLike) -> str:
  """Returns a shipped agent's directory for a name like 'pong', or `run_dir`.

  An existing path wins, and ~ is the home directory.
  """
  run_dir = os.path.expanduser(run_dir)
  shipped = _AGENTS / run_dir
  is_name = run_dir and not os.path.exists(run_dir)
  return str(shipped) if is_name and shipped.is_dir() else run_dir
