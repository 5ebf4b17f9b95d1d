"""Sends a run's rows and config to Weights & Biases; see `tracking`.

    python -m impala_tf.cli.wandb_tracker

reads the run's directory from the first line of standard input, and ends with
it. It notes sent rows in the directory, so that a resumed run continues the
same run of Weights & Biases.
"""

import json
import os
import secrets
import select
import signal
import sys
from typing import Any

from impala_tf.cli import program
from impala_tf.runs import gin_config
from impala_tf.runs import hparams
from impala_tf.runs import metrics
from impala_tf.runs import run_directory
from impala_tf.runs import tracking
from impala_tf.runtime import child
from impala_tf.storage import files

_NOTE = 'wandb.json'  # In the run directory.
_INTERVAL_SECS = 2.
_INIT_SECS = 60.  # For the service's answer; without one it goes on offline.
_FINISH_SECS = 120  # For the last rows where nobody waits for this process.


class Tracker:
  """A run of Weights & Biases that gets a training run's rows."""

  def __init__(self, wandb: Any, run_dir: str):
    """Starts a run of package `wandb`, or continues the one in `wandb.json`."""
    self._note_path = os.path.join(run_dir, _NOTE)
    self._note: dict[str, Any] = {'id': secrets.token_hex(4), 'sent': {}}
    if files.exists(self._note_path):
      self._note = json.loads(files.read(self._note_path))
    self.run = self._init(wandb, run_dir)
    self.run.define_metric('*', step_metric='frames')
    # Written at once: else a run that is killed early would be another next.
    files.write_json(self._note_path, self._note)
    self._readers = {
        '': metrics.RowReader(run_dir),
        f'{run_directory.EVALUATION}/': metrics.RowReader(
            os.path.join(run_dir, run_directory.EVALUATION))}

  def _init(self, wandb: Any, run_dir: str) -> Any:
    directory = (run_directory.logs_path(run_dir) if files.is_url(run_dir)
                 else run_dir)
    how = dict(
        project=os.environ.get('WANDB_PROJECT', 'impala_tf'),
        id=self._note['id'], name=os.path.basename(run_dir.rstrip('/')),
        dir=directory, resume='allow',
        config=hparams.values(gin_config.load(gin_config.config_path(run_dir))))
    try:
      return wandb.init(**how, settings=wandb.Settings(
          console='off', init_timeout=_INIT_SECS))
    except Exception as error:  # No network, no account, no permission.
      print(f'Weights & Biases does not answer ({files.one_line(error)}); '
            'going on offline: `wandb sync --append '
            f'{directory}/wandb/offline-run-*` sends rows later', flush=True)
      wandb.teardown()  # What failed would keep the id in use.
      return wandb.init(**how, mode='offline',
                        settings=wandb.Settings(console='off'))

  def send(self) -> None:
    num_sent = 0
    for prefix, reader in self._readers.items():
      for row in reader.new_rows():
        # Learning that was lost with a kill is learned, and logged, again.
        if row['frames'] <= self._note['sent'].get(prefix, -1):
          continue
        self.run.log({'frames': row['frames'], **{
            prefix + name: value for name, value in row.items()
            if name != 'frames' and value is not None}})
        self._note['sent'][prefix] = row['frames']
        num_sent += 1
    if num_sent:
      files.write_json(self._note_path, self._note)


def main() -> None:
  """Sends a run's rows to Weights & Biases until standard input ends."""
  run_dir = os.fsdecode(sys.stdin.buffer.readline().rstrip(b'\n'))
  if not run_dir:  # The run could not begin.
    return
  child.yield_to_others()
  log_dir = run_directory.logs_path(run_dir)
  os.makedirs(log_dir, exist_ok=True)
  log = os.open(os.path.join(log_dir, tracking.LOG_NAME),
                os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for stream in (sys.stdout, sys.stderr):
    os.dup2(log, stream.fileno())
  import wandb  # Here, since it takes seconds.
  tracker = Tracker(wandb, run_dir)
  # Until standard input ends, which holds nothing more.
  while not select.select([sys.stdin], [], [], _INTERVAL_SECS)[0]:
    try:
      tracker.send()
    except OSError as error:  # A disk that is full, or a store that is away.
      print(f'No rows for the moment: {error}', flush=True)
  signal.alarm(_FINISH_SECS)  # Else a dead network could keep it for ever.
  tracker.send()
  tracker.run.finish()


if __name__ == '__main__':
  program.end(program.run(main))
