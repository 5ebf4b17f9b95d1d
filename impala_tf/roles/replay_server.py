"""The process of a replay that several agents share (Schmitt et al. 2020).

It serves the replay's table, and small ones by which agents keep pace.
Settings, actors, queue and learner are separate for each agent.
"""

import time
from typing import Callable, Collection

from absl import logging
import reverb

from impala_tf import config as config_lib
from impala_tf.comms import reverb_calls
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import transport
from impala_tf.replay import shared_replay
from impala_tf.runtime import sizing
from impala_tf.storage import checkpoint as checkpoint_lib

_POLL_SECS = 0.2
_STATUS_SECS = 60.


def run(config: config_lib.Config, port: int, num_agents: int,
        absent: Collection[int], run_dir: str | None,
        should_stop: Callable[[], bool], say: Callable[[str], None]) -> None:
  """Serves the replay until `should_stop`; saves it regularly and at the end.

  Agents whose numbers are `absent` will not come. With
  `ReplayConfig.survives_resume` unrolls are saved to `run_dir`, which exists,
  and return from it. Raises OSError if the port is taken or the last save
  fails, ConfigError if memory is too small, UserError if a save is damaged.
  """
  sizing.set_threads(1)
  checkpoint_dir = None
  if config.replay.survives_resume:
    assert run_dir is not None
    checkpoint_dir = checkpoint_lib.replay_directory(run_dir)
  environment = experiment.make_probe_environment(config)
  spec = experiment.make_unroll_spec(
      config, environment, experiment.make_agent(config, environment))
  tables = [transport.make_replay(config, spec),
            *shared_replay.make_tables(config_lib.data_fingerprint(config),
                                       num_agents, absent)]
  server = queue_lib.make_server(tables, port, checkpoint_dir)
  client = reverb.Client(f'localhost:{server.port}')
  saved = reported = time.monotonic()
  say(f'serves {_describe(client)}')
  while not should_stop():
    time.sleep(_POLL_SECS)
    now = time.monotonic()
    if now - reported > _STATUS_SECS:
      reported = now
      say(_describe(client))
    if checkpoint_dir is not None and (
        now - saved > config.experiment.checkpoint_interval_secs):
      saved = now
      try:
        reverb_calls.save(client)
      except OSError as error:
        logging.warning('%s; it goes on', error)
  if checkpoint_dir is not None:
    reverb_calls.save(client)


def _describe(client: reverb.Client) -> str:
  infos = reverb_calls.server_info(client)
  table = infos[queue_lib.REPLAY]
  agents = ', '.join(
      f'{100 * report.progress / shared_replay.DONE:.1f} % (agent {agent})'
      for agent, report in sorted(shared_replay.reports(infos).items()))
  return (f'{table.current_size:,d} of {table.max_size:,d} unrolls; frames '
          f'that agents have learned from: {agents}')
