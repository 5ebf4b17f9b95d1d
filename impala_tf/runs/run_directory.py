"""A run's directory, which is claimed before anything is written.

It may be a URL; see `files`. How an agent learns and how the run is operated
may change when it is resumed. The game, network, algorithm and seed may not:
parameters, returns and the best checkpoint would mean something else, or could
not be read.
"""

import contextlib
import datetime
import fcntl
import os
import pathlib
import re
from typing import Iterator

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import history
from impala_tf.runs import metrics
from impala_tf.storage import files
from impala_tf.suites import levels

EVALUATION = 'evaluation'  # Within a run's directory: what an evaluator writes.
LOCK = '.lock'
# A run that was killed before it had its config leaves only files whose names
# begin so.
_LEFTOVERS = (LOCK, files.new_path(gin_config.config_path('')))
_REACH_SECS = 30.

# Sections of which everything may change, but for `_FIXED`. New sections and
# those of environments and networks are left out: nothing of them may.
_OPEN_SECTIONS = ('ActorConfig', 'ExperimentConfig', 'ImpalaConfig',
                  'LaserConfig', 'LearnerConfig', 'OptimizerConfig',
                  'ReplayConfig')
_FIXED = ('ExperimentConfig.algorithm', 'ExperimentConfig.seed',
          'LearnerConfig.num_learners', 'OptimizerConfig.bias_correction')
# Paths of these files may differ between machines.
_OPEN = ('DmlabConfig.dataset_path', 'DmlabConfig.level_cache_dir')
# Options that a replay on disk depends on.
_OF_SAVED_REPLAY = (
    'LearnerConfig.unroll_length', 'ReplayConfig.capacity_unrolls',
    'ReplayConfig.episode_unrolls', 'ReplayConfig.priority_exponent',
    'ReplayConfig.replay_fraction', 'ReplayConfig.sampling',
    'ReplayConfig.survives_resume')


def fresh_path(level: str) -> str:
  """Returns the path of a new run in `runs/`: level, time, and process id."""
  now = datetime.datetime.now().strftime('%Y%m%d-%H%M%S')
  name = levels.short_name(level).replace('/', '_').replace(' ', '_')
  return os.path.join('runs', f'{name}-{now}-{os.getpid()}')


def logs_path(run_dir: str) -> str:
  """Returns the log directory of a run's processes, always a local path."""
  if files.is_url(run_dir):  # Logs grow, and an object in a store cannot.
    return os.path.join('runs', 'logs', re.sub(r'\W+', '_', run_dir).strip('_'))
  return os.path.join(run_dir, 'logs')


def reach(run_dir: str) -> None:
  """Raises UserError if the directory's URL does not answer."""
  if files.is_url(run_dir):
    if files.is_pattern(run_dir):
      raise config_lib.UserError(
          f'TensorFlow takes {run_dir} for a glob; choose a URL without '
          '*, ?, [ and \\')
    try:
      files.reach(run_dir, _REACH_SECS)
    except files.RemoteError as error:
      raise config_lib.UserError(
          f'{run_dir} cannot be reached: {error}') from error


def config_path(given: str | None, run_dir: str | None) -> str | None:
  """Returns the path of the given config, else of `run_dir`'s, or None."""
  if given is not None or not run_dir:
    return given
  reach(run_dir)
  own = gin_config.config_path(run_dir)
  return own if files.exists(own) else None


def check_writable(path: pathlib.Path, flag: str) -> None:
  """Raises UserError, naming `flag`, for an unwritable directory."""
  if re.match(r'\w+:/', str(path)):  # Of two slashes pathlib makes one.
    raise config_lib.UserError(
        f'{flag} must be a path of a file system, but is a URL, as only a '
        'run directory can be; mount the bucket (with gcsfuse, say), and give '
        'the path of that')
  try:
    nearest = next(p for p in (path, *path.parents) if p.exists())
    for part in path.relative_to(nearest).parts:
      (nearest / part).exists()  # Raises for a name of more than 255 bytes.
    if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
      return
    problem = f'{nearest} is no directory, or not writable'
  except OSError as error:
    problem = str(error.strerror)
  raise config_lib.UserError(
      f'{path} cannot be written ({problem}); choose another {flag}')


def _check(path: str, config: config_lib.Config, allow_changes: bool) -> None:
  if files.is_url(path):
    reach(path)
  else:
    check_writable(pathlib.Path(path), '--run_dir')
  if files.exists(gin_config.config_path(path)):
    old = gin_config.load(gin_config.config_path(path))
    changed = gin_config.differences(old, config)
    if changed and not allow_changes:
      raise config_lib.UserError(
          f'{path} holds a run with another config: {", ".join(changed)}; '
          'give the same config to resume, or another --run_dir, or '
          '--allow_changes to go on with these changes')
    check_changes(old, config)
  elif any(not name.startswith(_LEFTOVERS) for name in files.names(path)):
    raise config_lib.UserError(f'{path} is not empty and holds no run; choose '
                               'another --run_dir')


def check_changes(old: config_lib.Config, new: config_lib.Config) -> None:
  """Raises ConfigError if a run of config `old` cannot resume with `new`."""
  keeps_replay = old.num_replayed and old.replay.survives_resume
  refused = []
  for difference in gin_config.differences(old, new):
    name = difference.partition(' ')[0]
    may_change = name in _OPEN or (
        name.partition('.')[0] in _OPEN_SECTIONS and name not in _FIXED)
    if not may_change or keeps_replay and name in _OF_SAVED_REPLAY:
      refused.append(difference)
  if (old.optimizer.max_gradient_norm is None) != (
      new.optimizer.max_gradient_norm is None):
    refused.append('OptimizerConfig.max_gradient_norm to or from None')
  if refused:
    raise config_lib.ConfigError(
        f'these cannot change within a run: {", ".join(refused)}; leave them '
        'as they are, or begin another run')


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
  """Turns an OSError, as of a full disk, into a UserError."""
  try:
    yield
  except OSError as error:
    raise config_lib.UserError(
        f'{path} cannot be written ({error.strerror}); make room, or choose '
        'another --run_dir') from error


@contextlib.contextmanager
def locking(directory: str, problem: str) -> Iterator[int]:
  """Holds the lock file of a directory, and yields its descriptor.

  Raises UserError, which says `problem`, if another process holds it.
  """
  with open(os.path.join(directory, LOCK), 'wb') as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise config_lib.UserError(problem) from None
    except OSError as error:
      raise config_lib.UserError(
          f'{directory} cannot be locked ({error.strerror}); choose one on a '
          'file system with locks') from error
    yield lock.fileno()


@contextlib.contextmanager
def _changed(path: str, config: config_lib.Config) -> Iterator[None]:
  """Writes the config with which a run resumes, if it has changed.

  Changes are printed and added to the run's history. A UserError before the
  next checkpoint undoes them.
  """
  own = gin_config.config_path(path)
  before = files.read(own)
  changes = gin_config.differences(gin_config.load(own), config)
  if not changes:
    yield
    return
  checkpoints = _checkpoints(path)
  with _writing(path):
    history.add(path, changed=changes, checkpoint=next(iter(checkpoints), None))
    _write_config(path, config)
  print(f'New config (see {history.path(path)}): {", ".join(changes)}',
        flush=True)
  try:
    yield
  except config_lib.UserError:
    if _checkpoints(path) == checkpoints:  # It was refused, not learned by.
      files.write(own, before)
      history.remove_last(path)
    raise


def _write_config(path: str, config: config_lib.Config) -> None:
  files.write(gin_config.config_path(path),
              gin_config.dumps(config).encode('utf-8'))


@contextlib.contextmanager
def claim(path: str, config: config_lib.Config,
          allow_changes: bool = False) -> Iterator[bool]:
  """Makes or resumes a run directory, locked against other processes.

  The config is written to `config.gin` before anything else. If the caller
  raises UserError without learning, all is as before: a new run is removed.

  Yields whether there is a run to resume. Raises UserError, before
  anything is touched, if the directory is in use, foreign, unwritable or of
  another config; ConfigError for changes that are never allowed.
  """
  _check(path, config, allow_changes)
  was_there = files.exists(path)
  with _writing(path):
    files.make_directory(path)
  with contextlib.ExitStack() as stack:
    if not files.is_url(path):  # Stores have no locks: nobody is kept out.
      with _writing(path):
        stack.enter_context(locking(
            path, f'another process is training in {path}; wait for it, or '
            'choose another --run_dir'))
    resuming = files.exists(gin_config.config_path(path))
    checkpoints = _checkpoints(path)
    with _writing(path):
      if not resuming:
        _write_config(path, config)
      history.add_start(path)
    try:
      with _changed(path, config):
        yield resuming
    except config_lib.UserError:
      # Only the run's processes could see that it cannot work.
      if resuming and _checkpoints(path) == checkpoints:
        history.remove_last(path)  # Nothing was learned by this start.
      elif not has_learned(path):
        for name in files.names(path):
          files.remove(os.path.join(path, name))
        if not was_there:
          # An object store has no directories, only the files in them.
          with contextlib.suppress(FileNotFoundError):
            files.remove(path)
      raise


def has_learned(path: str) -> bool:
  """Returns whether a run has written a checkpoint or a row."""
  return bool(_checkpoints(path) or metrics.read_rows(path))


def _checkpoints(path: str) -> list[str]:
  """Lists names of a run's checkpoints, the newest first, the best one last."""
  # `storage.checkpoint` imports TensorFlow, which takes seconds.
  found = [re.fullmatch(r'((?:ckpt|best)-(\d+))\.index', name)
           for name in files.names(os.path.join(path, 'checkpoints'))]
  return [match[1] for match in sorted(filter(None, found), key=lambda match: (
      match[1].startswith('ckpt'), int(match[2])), reverse=True)]


def newest_checkpoint(path: str) -> int | None:
  """Returns the updates of the checkpoint that a run resumes from, or None."""
  return next((int(name.rpartition('-')[2]) for name in _checkpoints(path)),
              None)


def describe_stop(path: str, again: str) -> str:
  """Returns a line: a stopped run's last checkpoint, and `again` to resume."""
  updates = newest_checkpoint(path)
  if updates is None:
    return f'Stopped before the first checkpoint; {again} begins anew'
  return f'Stopped with a checkpoint of update {updates:,d}; {again} resumes'
