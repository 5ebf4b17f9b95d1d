"""One role of a run as a process of its own; started by `launch.train`."""

import argparse
import os
import signal
import sys
import threading
import time

from absl import flags
from absl import logging

from impala_tf import config as config_lib
from impala_tf import supervisor
from impala_tf.envs import workers
from launch import gin_config

_GRACE_SECS = 5.


def _run(args: argparse.Namespace, config: config_lib.Config) -> None:
  """Runs the role until its end."""
  from impala_tf import experiment  # Takes seconds, so after all checks.
  from impala_tf import profiling
  if args.role == 'actor':
    supervisor.yield_to_others()
    supervisor.stop_with_parent(lambda: os._exit(0))
    kwargs = {}
    if args.profile:
      kwargs['on_unroll'] = profiling.HopTimesWriter(
          args.run_dir, f'actor_{args.seed}').add_unroll
    experiment.run_actor(config, f'localhost:{args.port}', args.seed,
                         args.task, **kwargs)
    return
  stopping = threading.Event()
  signal.signal(signal.SIGTERM, lambda *unused: stopping.set())
  supervisor.stop_with_parent(stopping.set)
  experiment.run_learner(config, args.run_dir, args.port, stopping.is_set,
                         args.profile)


def main() -> int:
  """Returns the exit code."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('role', choices=('learner', 'actor'))
  parser.add_argument('--run_dir', required=True)
  parser.add_argument('--port', type=int, required=True,
                      help='of the Reverb server in the learner')
  parser.add_argument('--seed', type=int, default=0,
                      help='differs between the actors of a run')
  parser.add_argument('--task', type=int, default=0,
                      help='which of the actors this is')
  parser.add_argument('--profile', action='store_true',
                      help='record what time goes to')
  args = parser.parse_args()
  flags.FLAGS.mark_as_parsed()  # Else absl warns of early logging.
  logging.use_absl_handler()
  logging.set_verbosity(logging.INFO)
  try:
    _run(args, gin_config.load(gin_config.config_path(args.run_dir)))
  except config_lib.UserError as error:
    print(f'{supervisor.COMPLAINT}{error}', file=sys.stderr)
    return supervisor.BAD_INPUT
  except workers.WorkerError as error:  # It says all, and a trace nothing more.
    logging.error('%s', error)
    return 1
  except OSError as error:  # ConnectionError is one.
    logging.error('%s', error)
    if args.role == 'actor':
      # Most likely the learner has ended, and the supervisor is about to end
      # this process too. It would take an exit before that for a failure.
      time.sleep(_GRACE_SECS)
    return 1
  return 0


if __name__ == '__main__':
  exit_code = main()
  sys.stderr.flush()
  # At once. All is saved, and TensorFlow's and Reverb's own endings can take
  # seconds on a busy machine, of which Ctrl-C has only ten.
  os._exit(exit_code)
