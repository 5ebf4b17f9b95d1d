"""What a learner tells everyone who connects to it: the run's config.

So actors and evaluators cannot have another, wherever they run. The table's
name holds the config's fingerprint: whoever is connected sees in the list of
tables, which has to be asked for anyway, whether the server is still its run's.
"""

import time
from typing import Optional

import numpy as np
import reverb
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import config_fingerprint
from impala_tf import config_json
from impala_tf.processes import waiting
from impala_tf.transport import reverb_calls

_PREFIX = 'config-'
_POLL_SECS = 0.2
_PROBE_TIMEOUT_SECS = 10


def table_name(config: config_lib.Config) -> str:
  """Of the table that a learner with this config, and no other, has."""
  return _PREFIX + config_fingerprint.of_config(config)


def make_table(config: config_lib.Config) -> reverb.Table:
  """The table; `publish` fills it."""
  return reverb.Table(
      name=table_name(config),
      sampler=reverb.selectors.Fifo(),
      remover=reverb.selectors.Fifo(),
      max_size=1,
      rate_limiter=reverb.rate_limiters.MinSize(1),
      max_times_sampled=0,  # Any number of peers reads it.
      signature=(tf.TensorSpec([None], tf.uint8, 'json'),))


def publish(address: str, config: config_lib.Config) -> None:
  """Puts the config into its table.

  Raises:
    ConnectionError: where the server does not answer.
  """
  client = reverb.Client(address)
  writer = client.trajectory_writer(num_keep_alive_refs=1)
  text = np.frombuffer(config_json.dumps(config).encode(), np.uint8)
  writer.append((text,))
  writer.create_item(table_name(config), priority=1.0,
                     trajectory=(writer.history[0][-1],))
  reverb_calls.flush(client, writer)


def _read(client: reverb.Client) -> Optional[config_lib.Config]:
  """The config of the learner there; None while it has published none."""
  infos = reverb_calls.server_info(client, _PROBE_TIMEOUT_SECS)
  for name, info in infos.items():
    if name.startswith(_PREFIX) and info.current_size:
      sample = next(iter(client.sample(
          name, emit_timesteps=False, unpack_as_table_signature=True)))
      return config_json.loads(bytes(sample.data[0]).decode())
  return None


def wait_for_config(address: str, poll: waiting.PollFn) -> config_lib.Config:
  """The config of the run whose learner is there, or will be.

  Args:
    address: 'host:port' of its server, which should be there by now: whether
      it is takes ten seconds to find out; see `waiting.for_port`.
    poll: is called while it is not.

  Raises:
    ConfigError: where the learner is of another version of this package.
  """
  client = reverb.Client(address)
  while True:
    try:
      config = _read(client)
      if config is not None:
        return config
      cause = 'its server is there, but not yet ready'
    except ConnectionError as error:
      cause = str(error)
    poll(cause)
    time.sleep(_POLL_SECS)
