"""Supervises a checked learner and ordinary actors, as `launch.train` does.

`python -m tests.faults.supervised RUN_DIR PORT`; the config is in RUN_DIR.
"""

import os
import sys

from impala_tf import supervisor
from launch import gin_config


def main():
  run_dir, port = sys.argv[1:]
  config = gin_config.load(gin_config.config_path(run_dir))
  where = ['--supervised', f'--run_dir={run_dir}',
           f'--address=localhost:{port}']
  signum = supervisor.Supervisor(
      learner_commands=[[sys.executable, '-m', 'tests.faults.checked_learner',
                         'learner', *where]],
      actor_command=lambda task, attempt: [
          sys.executable, '-m', 'launch.role', 'actor', *where,
          f'--task={task}', f'--seed={task + 10_000 * attempt}'],
      num_actors=config.actor.num_actors,
      log_dir=os.path.join(run_dir, 'logs'),
      max_restarts=config.actor.max_restarts,
      restart_window_secs=config.actor.restart_window_secs).run(lambda: None)
  return 128 + signum if signum else 0


if __name__ == '__main__':
  sys.exit(main())
