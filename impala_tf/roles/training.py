"""Training from Python: `impala_tf.train`.

The learner runs in the calling process, where its callbacks are; actors are
processes that a thread supervises, or take turns with it.
"""

from concurrent import futures
import contextlib
import functools
import os
import signal
import sys
import tempfile
import threading
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.roles import beginning
from impala_tf.roles import local_run
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from impala_tf.runs import progress
from impala_tf.runs import run_directory
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import output
from impala_tf.runtime import proxies
from impala_tf.runtime import sizing
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib


class TrainingResult(NamedTuple):
  """The state of a run after `train`; `frames` are environment frames.

  Attributes:
    episode_return: mean return of the last 100 full episodes, or of all if
      fewer have ended; None before the first.
    best_checkpoint: path, without ending, of the checkpoint with the best mean
      return of 100 full episodes; None before there is one.
  """
  run_dir: str
  frames: int
  updates: int
  episode_return: float | None
  best_checkpoint: str | None


@output.never_failing()
def train(config: config_lib.Config | str | os.PathLike[str],
          run_dir: str | os.PathLike[str] | None = None, *,
          in_process: bool = False, bindings: Mapping[str, Any] | None = None,
          callbacks: Sequence[Any] = (), allow_changes: bool = False,
          init_from: str | os.PathLike[str] | None = None) -> TrainingResult:
  """Trains an agent on this machine, or resumes a run, as `train` does.

  The first Ctrl-C, or SIGTERM, writes a checkpoint and then raises
  KeyboardInterrupt, or terminates. The same call with that `run_dir` resumes.

  Args:
    config: what to train: a config, the path of a .gin file, or the name of a
      shipped one, such as 'catch'.
    run_dir: directory for logs and checkpoints; None for a new one in runs/.
    in_process: whether actor and learner take turns in this process, so that
      breakpoints stop there, as with `ExperimentConfig.in_process`.
    bindings: other values of options, as {'LearnerConfig.batch_size': 16}.
    callbacks: objects with a method `after_update(update)`, which gets a
      `interfaces.Update` after each update; it may raise `StopTraining`.
    allow_changes: whether a run may be resumed with another config.
    init_from: directory of another run, with whose parameters a new run begins.

  Returns:
    The state of the finished run: all frames are learned from,
    `ExperimentConfig.stop_at_return` is reached, or a callback has ended it.

  Raises:
    UserError: in one line, if an argument cannot work.
    RuntimeError: if actors died too often.
    KeyboardInterrupt: after Ctrl-C.
  """
  user_modules.refuse_while_importing('impala_tf.train')
  beginning.check_reverb()
  if run_dir is not None:
    run_dir = os.path.expanduser(os.fspath(run_dir))
  config = _load(config, bindings or {}, in_process)
  beginning.check_names(config)
  if config.learner.num_learners > 1:
    raise config_lib.ConfigError(
        f'LearnerConfig.num_learners is {config.learner.num_learners}, but '
        'impala_tf.train has one learner, this process; set it to 1, or use '
        'the command')
  sizing.fit(config)  # Refuses more levels than environments.
  has_children = not config.experiment.in_process and (
      not config.learner_plays or config.actor.env_processes)
  if has_children or init_from is not None:
    _share_registered(config)
  chosen = local_run.choose_ports(None, 1)
  run_dir = run_dir or run_directory.fresh_path(config.environment.level)
  source = None if init_from is None else os.path.expanduser(init_from)
  proxies.bypass()
  with local_run.begun(
      run_dir, config, chosen, 'train() has no private network', allow_changes,
      source), contextlib.ExitStack() as stack:
    line = stack.enter_context(progress.ProgressLine(
        config, has_callbacks=bool(callbacks)))
    check = None if config.experiment.in_process else stack.enter_context(
        _supervised_actors(config, files.absolute(run_dir), chosen))
    signum = local_run.learn_here(
        config, control_lib.Endpoint(run_dir, chosen.reverb[0]), line,
        callbacks, check)
  if signum is not None:
    print(run_directory.describe_stop(
        run_dir, f'the same call with run_dir={run_dir!r}'), flush=True)
    signal.raise_signal(signum)
    raise KeyboardInterrupt(signum)  # If the caller's handler returns.
  row = (metrics.read_rows(run_dir) or [{'frames': 0, 'updates': 0}])[-1]
  from impala_tf.storage import checkpoint  # TensorFlow is imported by now.
  best = checkpoint.find_best(run_dir)
  return TrainingResult(
      run_dir, row['frames'], row['updates'], row.get('episode_return'),
      best and best.path)


def _load(config: config_lib.Config | str | os.PathLike[str],
          bindings: Mapping[str, Any], in_process: bool) -> config_lib.Config:
  if in_process:
    bindings = {**bindings, 'ExperimentConfig.in_process': True}
  lines = [f'{name} = {value!r}' for name, value in bindings.items()]
  if not isinstance(config, config_lib.Config):
    return gin_config.load(os.fspath(config), lines)
  if not lines:
    return config
  with tempfile.NamedTemporaryFile('w', suffix='.gin') as file:
    file.write(gin_config.dumps(config))
    file.flush()
    return gin_config.load(file.name, lines)


def _share_registered(config: config_lib.Config) -> None:
  """Makes children import modules that registered names; else UserError."""
  needed = [('AgentConfig.torso', config.agent.torso),
            ('ExperimentConfig.algorithm', config.experiment.algorithm)]
  levels = levels_lib.expand(config.environment.level)
  needed += [('EnvironmentConfig.level', level.partition('/')[0])
             for level in levels]
  for option, value in needed:
    module = user_modules.registrar(option, value)
    if module is not None:
      user_modules.share(module, f'{option} = {value!r}')
  gymnasium = sys.modules.get('gymnasium')
  for level in levels:
    domain, _, env_id = level.partition('/')
    spec = gymnasium and domain == 'gym' and gymnasium.registry.get(env_id)
    if not spec:
      continue
    entry = spec.entry_point
    if isinstance(entry, functools.partial):
      entry = entry.func
    module = entry.partition(':')[0] if isinstance(entry, str) else (
        entry.__module__)
    if module.partition('.')[0] != 'gymnasium':
      user_modules.share(module, f'the environment {level}')


@contextlib.contextmanager
def _supervised_actors(config: config_lib.Config, run_dir: str,
                       chosen: local_run.Ports) -> Iterator[Callable[[], None]]:
  """Supervises actor processes in a thread until the context ends.

  Yields a function that raises the error that ended the supervision, if any.
  """
  has_ended = threading.Event()

  def supervise():
    with local_run.supervisor(
        config, run_dir, chosen, is_done=has_ended.is_set) as supervisor:
      supervisor.run(lambda: None)

  def check():
    if supervision.done():
      supervision.result()

  with futures.ThreadPoolExecutor() as pool:
    supervision = pool.submit(supervise)
    try:
      yield check
    finally:
      has_ended.set()
