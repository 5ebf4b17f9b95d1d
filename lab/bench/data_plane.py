"""The path of unrolls from actors to ready batches, measured by itself.

Started by the benchmark as `python -m lab.bench.data_plane ROLE
CONFIG.gin PORT`, once as `reader` (the server is in its process, as in a run)
and once or more as `writer`. By itself, ROLE `drain` shows what the learner's
end can take.
"""

import itertools
import threading
import time

import reverb

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.core import batches as batches_lib
from impala_tf.core import experiment
from impala_tf.core import loop
from impala_tf.core import queue as queue_lib
from impala_tf.core import transport
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import sizing
from lab.bench import measure
from lab.bench import parts
from lab.bench import worker

_QUEUE_BATCHES = 2
_DRAINED_BATCHES = 400


def _write(config: config_lib.Config, spec: types.Unroll, port: int) -> None:
  """Measures, when asked, writing unrolls as fast as the queue accepts them."""
  num_envs = sizing.fitted(config.actor.num_envs)
  unrolls = itertools.cycle(parts.record_unrolls(config, 2 * num_envs))
  writer = transport.make_writer(config, f'localhost:{port}', spec)

  def write():
    for unroll in itertools.islice(unrolls, num_envs):
      writer.write(unroll)
    writer.flush()
    return num_envs * config.learner.unroll_length

  worker.serve(worker.repeatedly(write))


def _serve(config: config_lib.Config, spec: types.Unroll, num_batches: int,
           port: int) -> reverb.Server:
  """Serves a queue with room for batches, and the replay if there is one."""
  queue = queue_lib.make_queue(spec, num_batches * config.num_fresh)
  replays = [transport.make_replay(config, spec)] if config.num_replayed else []
  return queue_lib.make_server([queue, *replays], port)


def _read(config: config_lib.Config, spec: types.Unroll, port: int) -> None:
  """Reads batches without pause, and measures their rate when asked."""
  # Larger than in a run, so that neither end waits for the other.
  server = _serve(config, spec, _QUEUE_BATCHES, port)
  reader = batches_lib.BatchReader(transport.make_batches(
      config, spec, f'localhost:{server.port}'))
  num_batches = 0

  def drain():
    nonlocal num_batches
    for _ in loop.read(reader, control_lib.LoopControl()):
      num_batches += 1

  threading.Thread(target=drain, daemon=True).start()

  def measure(secs):
    start, cpu_start = num_batches, time.process_time()
    wall_start = time.monotonic()
    time.sleep(secs)
    steps = ((num_batches - start) * config.num_fresh *
             config.learner.unroll_length)
    return {'steps': steps, 'cpu_secs': time.process_time() - cpu_start,
            'wall_secs': time.monotonic() - wall_start}

  worker.serve(measure)


def _drain(config: config_lib.Config, spec: types.Unroll, port: int) -> None:
  """Prints how fast the learner's end empties a queue that was filled before.

  No writer takes any of the cores meanwhile.
  """
  number = _DRAINED_BATCHES * config.num_fresh
  server = _serve(config, spec, _DRAINED_BATCHES, port)
  address = f'localhost:{server.port}'
  writer = transport.make_writer(config, address, spec)
  unrolls = itertools.cycle(parts.record_unrolls(config, 64))
  for unroll in itertools.islice(unrolls, number):
    writer.write(unroll)
    writer.flush(max_pending=100)
  writer.flush()
  start, cpu_start = time.monotonic(), time.process_time()
  reader = batches_lib.BatchReader(
      transport.make_batches(config, spec, address))
  batches = loop.read(reader, control_lib.LoopControl())
  for _ in itertools.islice(batches, _DRAINED_BATCHES):
    pass
  secs, cpu_secs = time.monotonic() - start, time.process_time() - cpu_start
  frames = (number * config.learner.unroll_length *
            measure.frames_per_step(config))
  print(f'{frames / secs:,.0f} frames/s, {cpu_secs / secs:.2f} cores busy, '
        f'{frames / cpu_secs:,.0f} frames/s a core')


def main():
  role, config, port = worker.parse_args(
      __doc__, ('reader', 'writer', 'drain'), has_port=True)
  sizing.set_threads(1 if role == 'writer' else config.learner.num_threads)
  environment = experiment.make_probe_environment(config)
  spec = experiment.make_unroll_spec(
      config, environment, experiment.make_agent(config, environment))
  {'reader': _read, 'writer': _write, 'drain': _drain}[role](config, spec, port)


if __name__ == '__main__':
  main()
