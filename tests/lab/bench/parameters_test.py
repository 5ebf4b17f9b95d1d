"""The way of parameters, with the processes that the benchmark starts."""

import pytest
import reverb

from impala_tf.runtime import ports
from lab.bench import worker
from tests.fixtures import programs

_CONFIG = '''
include 'configs/catch.gin'
config.LearnerConfig.batch_size = 8
config.LearnerConfig.unroll_length = 40
config.ActorConfig.num_actors = 2
config.ActorConfig.num_envs = 12
'''


@pytest.mark.nightly
@pytest.mark.slow
def test_both_ends_cost_something_for_the_steps_of_a_second(tmp_path):
  path = tmp_path / 'config.gin'
  path.write_text(
      f'from __gin__ import dynamic_registration\n'
      f'from impala_tf import config\n{_CONFIG}')
  port = ports.choose(None)
  ends = [worker.Worker('lab.bench.parameters',
                        [role, str(path), str(port)])
          for role in ('publish', 'fetch')]

  def num_in_table():
    info = reverb.Client(f'localhost:{port}').server_info(timeout=10)
    return info['weights'].rate_limiter_info.insert_stats.completed

  def measure(secs, updates_per_sec):
    for end in ends:
      end.ask(secs, updates_per_sec)
    return [end.answer() for end in ends]

  try:
    for end in ends:
      end.wait_until_ready()
    measure(1., 5.)  # The first time they meet.
    before = num_in_table()
    published, fetched = measure(2., 10.)
    programs.wait_until(
        lambda: num_in_table() > before, 'what is done once a second')
    assert num_in_table() <= before + 3  # At most, and not 20.
  finally:
    for end in ends:
      end.close()
  assert published['steps'] == pytest.approx(2 * 10 * 8 * 40, rel=0.3)
  assert fetched['steps'] == pytest.approx(published['steps'], rel=0.3)
  assert published['cpu_secs'] > 0 and fetched['cpu_secs'] > 0
