"""Small runs of Catch under the real command, to be disturbed."""

import contextlib
import pathlib
import re
import signal

import numpy as np

from impala_tf import checkpoint
from impala_tf import metrics
from tests import programs
from tests.faults import environments

DEADLINE_SECS = 300.  # For one wait, on a machine with much else to do.


class Run:
  """What can be seen of a run, and how to wait while it goes on."""

  def __init__(self, run_dir, process):
    self.run_dir = run_dir
    self.process = process

  def pids(self, role):
    return programs.pids(role, f'--run_dir={self.run_dir}')

  def rows(self):
    return metrics.read_rows(str(self.run_dir))

  def row(self):
    """The newest; before the first there are zeros."""
    rows = self.rows()
    return rows[-1] if rows else dict.fromkeys(
        ('frames', 'updates', 'unrolls_refused', 'updates_skipped',
         'checkpoints_failed'), 0)

  def newest_checkpoint(self):
    """Its number; 0 before the first."""
    return max((int(path.stem[len('ckpt-'):]) for path in
                (self.run_dir / 'checkpoints').glob('ckpt-*.index')), default=0)

  def check_lost_secs(self, interval_secs):
    """Checks that the next checkpoint was not overdue, when no learner runs.

    One is begun with the first update after the interval, or after the last
    one where writing that took longer. How long updates and writing take on
    this machine now shows in the time between rows: one before the first is
    begun, at most one to write it, one before the next is begun.

    Returns:
      The seconds of learning since the newest.
    """
    rows, saved = self.rows(), self.newest_checkpoint()
    num_kept = sum(row['updates'] <= saved for row in rows)
    secs = [row['secs'] for row in rows[num_kept - 1:]]
    longest = max(np.diff(secs), default=0.)
    lost_secs = secs[-1] - secs[0]
    assert lost_secs <= interval_secs + 3 * longest, secs
    return lost_secs

  def log(self):
    return (self.run_dir / 'logs' / 'learner.log').read_text()

  def wait(self, condition, what):
    def holds():
      assert self.process.poll() is None, self.process.communicate()
      return condition()
    return programs.wait_until(holds, what, DEADLINE_SECS)

  def wait_for_frames(self, number=400):
    before = self.row()['frames']
    self.wait(lambda: self.row()['frames'] >= before + number, 'frames')

  def wait_for_checkpoint(self):
    before = self.newest_checkpoint()
    self.wait(lambda: self.newest_checkpoint() > before, 'a checkpoint')

  def wait_for_more(self, column, number=1):
    before = self.row()[column]
    self.wait(lambda: self.row()[column] >= before + number, f'more {column}')

  def end(self):
    """Waits for its own end; returns exit code and what it said."""
    output, errors = self.process.communicate(timeout=DEADLINE_SECS)
    return self.process.returncode, output + errors

  def interrupt(self):
    """Presses Ctrl-C; returns the same."""
    self.process.send_signal(signal.SIGINT)
    return self.end()

  def stop(self):
    """Ends it well; all it has learned must be finite."""
    code, text = self.interrupt()
    assert code == 130, text
    self.check_parameters()

  def check_parameters(self):
    agent, frames = checkpoint.load_agent(str(self.run_dir))
    assert frames == self.row()['frames']
    for variable in agent.trainable_variables:
      assert np.all(np.isfinite(variable.numpy())), variable.name


@contextlib.contextmanager
def training(run_dir, *arguments):
  """Starts it, or resumes it; yields a `Run`."""
  with programs.running(
      '-m', 'launch.train', *programs.CATCH, f'--run_dir={run_dir}',
      '--gin_binding=ExperimentConfig.total_frames = 1000000000', *arguments,
      env=environments.variables(run_dir)) as process:
    yield Run(run_dir, process)


def bind(name, value):
  return f'--gin_binding={name} = {value!r}'


def memory_mib(pid):
  """Resident memory of a process."""
  text = pathlib.Path(f'/proc/{pid}/status').read_text()
  return int(re.search(r'VmRSS:\s+(\d+) kB', text).group(1)) / 1024
