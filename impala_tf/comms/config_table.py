"""The Reverb table by which a learner publishes the run's config.

Actors and evaluators read their config there, so theirs cannot differ, wherever
they run. The table's name holds the config's fingerprint: peers list the
server's tables anyway, and so notice if the server belongs to another run.
"""

import time

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf.comms import reverb_calls
from impala_tf.runtime import waiting

_PREFIX = 'config-'
_POLL_SECS = 0.2
_PROBE_TIMEOUT_SECS = 10


def table_name(config: config_lib.Config) -> str:
  """Returns the table's name, which contains the config's fingerprint."""
  return _PREFIX + config_lib.full_fingerprint(config)


def make_table(config: config_lib.Config) -> reverb.Table:
  """Makes the empty table for the config; `publish` writes the config to it."""
  return reverb_calls.newest_item_table(
      table_name(config), tf.TensorSpec([None], tf.uint8, 'json'))


def publish(address: str, config: config_lib.Config) -> None:
  """Writes the config to the table; ConnectionError if no server answers."""
  client = reverb.Client(address)
  writer = client.trajectory_writer(num_keep_alive_refs=1)
  text = np.frombuffer(config_lib.to_json(config).encode(), np.uint8)
  reverb_calls.insert(client, writer, table_name(config), [text])


def wait_for_config(address: str, poll: waiting.PollFn) -> config_lib.Config:
  """Waits until a learner has published its config, and returns the config.

  Between tries, of at most ten seconds, `poll` gets the cause, and may raise.
  Raises ConfigError if the learner has another version of this package.
  """
  client = reverb.Client(address)
  while True:
    try:
      infos = reverb_calls.server_info(client, _PROBE_TIMEOUT_SECS)
      for name, info in infos.items():
        if name.startswith(_PREFIX) and info.current_size:
          text, = reverb_calls.newest_item(client, name)
          return config_lib.from_json(bytes(text).decode())
      cause = 'its server is there, but not yet ready'
    except ConnectionError as error:
      cause = str(error)
    poll(cause)
    time.sleep(_POLL_SECS)
