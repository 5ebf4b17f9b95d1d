"""The way of parameters from learner to actors, measured by itself.

Started by the benchmark as `python -m lab.bench.parameters ROLE
CONFIG.gin PORT`: as `publish`, which has the server as a learner does, and as
`fetch`, which stands for all actors. Both keep to a clock, so that there is
something new for each fetch, and to the run's updates a second: some things are
done once a second however many updates there are (`weights`).
"""

import itertools
import time
from typing import Iterator

from impala_tf import config as config_lib
from impala_tf.agents import agent as agent_lib
from impala_tf.comms import parameter_memory
from impala_tf.core import experiment
from impala_tf.core import queue as queue_lib
from impala_tf.core import weights
from impala_tf.runtime import precision
from impala_tf.runtime import sizing
from lab.bench import worker


def ticks(per_sec: float, secs: float) -> Iterator[None]:
  """Yields `per_sec` times a second for `secs`; catches up after delays."""
  start = time.monotonic()
  for number in itertools.count():
    due = start + number / per_sec
    if max(due, time.monotonic()) >= start + secs:
      return
    time.sleep(max(0., due - time.monotonic()))
    yield


def _make_agent(config: config_lib.Config,
                torso_precision: str = 'float32') -> agent_lib.Agent:
  return experiment.make_agent(
      config, experiment.make_probe_environment(config), torso_precision)


def _publish(config: config_lib.Config, port: int) -> None:
  """Measures, when asked, publishing parameters at the run's update rate."""
  variables = _make_agent(config).published_variables
  memory = None
  if not config.experiment.in_process:  # As `learner_parts` has it.
    memory = parameter_memory.make(weights.num_parameters(variables))
  server = queue_lib.make_server(weights.make_tables(variables, memory), port)
  publisher = weights.Publisher(
      weights.make_snapshot(variables), lambda version: version,
      weights.in_other_processes(
          weights.Table(f'localhost:{server.port}'), memory, write_all=False))
  versions = itertools.count(1)
  publisher.publish(next(versions))  # The first traces a graph.

  def measure(secs, updates_per_sec):
    num_updates, cpu_start = 0, time.process_time()
    for _ in ticks(updates_per_sec, secs):
      publisher.publish(next(versions))
      num_updates += 1
    return {
        'steps': num_updates * config.num_fresh * config.learner.unroll_length,
        'cpu_secs': time.process_time() - cpu_start}

  worker.serve(measure)


def _fetch(config: config_lib.Config, port: int) -> None:
  """Measures, when asked, fetching parameters for one actor after the other."""
  num_envs = sizing.fitted(config.actor.num_envs)
  variables = [
      _make_agent(config, precision.of_actor(config)).published_variables
      for _ in range(sizing.fitted(config.actor.num_actors))]
  fetchers: list[weights.Fetcher] = []

  def measure(secs, updates_per_sec):
    if not fetchers:  # Not before: now the server is there.
      fetchers.extend(
          weights.Fetcher(f'localhost:{port}', own,
                          interval=config.actor.fetch_interval_unrolls)
          for own in variables)
      for fetcher in fetchers:
        fetcher.wait(lambda cause: None)
    turns = itertools.cycle(fetchers)
    num_unrolls, cpu_start = 0, time.process_time()
    for _ in ticks(updates_per_sec * config.num_fresh / num_envs, secs):
      next(turns).fetch()
      num_unrolls += num_envs
    return {'steps': num_unrolls * config.learner.unroll_length,
            'cpu_secs': time.process_time() - cpu_start}

  worker.serve(measure)


def main():
  role, config, port = worker.parse_args(
      __doc__, ('publish', 'fetch'), has_port=True)
  sizing.set_threads(1)
  (_publish if role == 'publish' else _fetch)(config, port)


if __name__ == '__main__':
  main()
