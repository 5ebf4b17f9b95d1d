"""The way of parameters from learner to actors, measured by itself.

Started by the benchmark: `python -m launch.benchmark.parameters CONFIG.gin`.
One process is learner and actors in turns, so that what a server does for a
fetch counts as part of it.
"""

import argparse
import itertools
import time

from impala_tf import config as config_lib
from impala_tf import experiment
from impala_tf import replay
from impala_tf import weights
from impala_tf.processes import sizing
from impala_tf.processes import tf_threads
from impala_tf.processes import user_modules
from launch.benchmark import worker
from launch.run import gin_config
from launch.run import program

_WARM_UP_UPDATES = 20


class Distribution:
  """Parameters that are published and fetched as often as in a run.

  Attributes:
    publish_cpu_secs: CPU time of publishing.
    fetch_cpu_secs: CPU time of fetching.
  """

  def __init__(self, config: config_lib.Config):
    """Starts a server, and connects a learner's and all actors' ends to it."""
    environment = experiment.make_environment(config, 1, training=True)
    agent = experiment.make_agent(config, environment)
    self._server = replay.make_server(
        [weights.make_table(agent.published_variables)], None)
    address = f'localhost:{self._server.port}'
    self._publisher = weights.Publisher(
        address, agent.published_variables, lambda version: version)
    self._fetchers = itertools.cycle([
        weights.Fetcher(
            address,
            experiment.make_agent(config, environment).published_variables,
            interval=config.actor.fetch_interval_unrolls)
        for _ in range(config.actor.num_actors)])
    environment.close()
    self._fetches_per_update = config.num_fresh / config.actor.num_envs
    self._fetches_due = 0.
    self._version = 0
    self.publish_cpu_secs = self.fetch_cpu_secs = 0.

  def update(self) -> None:
    """Publishes once, and lets those actors fetch that begin unrolls."""
    start = time.process_time()
    self._version += 1
    self._publisher.publish(self._version, self._publisher.snapshot())
    self.publish_cpu_secs += time.process_time() - start
    self._fetches_due += self._fetches_per_update
    start = time.process_time()
    while self._fetches_due >= 1:
      next(self._fetchers).fetch()
      self._fetches_due -= 1
    self.fetch_cpu_secs += time.process_time() - start


def main():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('config')
  program.add_import(parser)
  args = parser.parse_args()
  user_modules.load(args.modules)
  config = sizing.fit(gin_config.load(args.config))
  tf_threads.set_threads(1)
  distribution = Distribution(config)
  for _ in range(_WARM_UP_UPDATES):
    distribution.update()

  def measure(secs):
    num_steps = 0
    end = time.monotonic() + secs
    distribution.publish_cpu_secs = distribution.fetch_cpu_secs = 0.
    while time.monotonic() < end:
      distribution.update()
      num_steps += config.num_fresh * config.learner.unroll_length
    return {'steps': num_steps,
            'publish_cpu_secs': distribution.publish_cpu_secs,
            'fetch_cpu_secs': distribution.fetch_cpu_secs}

  worker.serve(measure)


if __name__ == '__main__':
  main()
