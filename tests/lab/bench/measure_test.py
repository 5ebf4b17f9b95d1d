"""Tests of the benchmark's sums, with numbers that can be checked by hand."""

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import sizing
from lab.bench import measure
from lab.bench import report
from lab.bench import training

# Means of two rounds: 0.5, 0.09, 0.01, 0.02, 0.02 for an actor; 0.02, 0.23 and
# 0.01 for the learner; 0.9 in all.
_COSTS = [
    dict(emulator=0.3, environment=0.4, inference=0.09, fetch=0.01,
         assembly=0.02, write=0.01, read=0.02, learner=0.19, publish=0.01),
    dict(emulator=0.5, environment=0.6, inference=0.09, fetch=0.01,
         assembly=0.02, write=0.03, read=0.02, learner=0.27, publish=0.01)]
# 40,000 frames are 10,000 steps in 3 s on 4 cores. Of 12 s of cores 10 s are
# used, 1.2 s (a tenth) stolen, 0.6 s used by other processes.
_WINDOWS = [
    training.Window(
        frames=10_000, secs=1., cpu_secs=dict(supervisor=0.1, learner=1.0,
                                              actors=2.),
        stolen_secs=0., busy_secs=3.4,
        rows=[dict(policy_lag=2., learner_wait_share=0.5)]),
    training.Window(
        frames=30_000, secs=2., cpu_secs=dict(supervisor=0.1, learner=1.8,
                                              actors=5.),
        stolen_secs=1.2, busy_secs=7.2,
        rows=[dict(policy_lag=4., learner_wait_share=0.1),
              dict(policy_lag=3., learner_wait_share=0.3)])]


@pytest.fixture(name='result')
def _result():
  config = sizing.fit(config_lib.Config(), cores=4)
  return measure.summarise(config, 4, _WINDOWS, _COSTS, [1e5, 2e5])


def test_sums_are_as_by_hand(result):
  assert tuple(result['parts_cpu_ms_per_step']) == measure.PARTS
  expected = {
      'sum_cpu_ms_per_step': 0.9,  # The emulator is part of an environment.
      'cpu_secs_per_1000_frames': 0.25, 'stolen_share': 0.1,
      'idle_share': 0.8 / 12, 'others_share': 0.6 / 12,
      'policy_lag_updates_mean': 3, 'learner_wait_share': 0.3,
      'data_plane_frames_per_sec': 6e5, 'frames_per_sec': 40_000 / 3,
      # The sum allows this; a tenth of the cores was taken by the host.
      'allowed_frames_per_sec': 4 * 0.9 * 4 / 0.9e-3, 'ratio': 0.75 / 0.9}
  assert {name: result[name] for name in expected} == pytest.approx(expected)


def test_more_cores_gain_until_the_learner_has_no_time(result):
  computed = result['computed_frames_per_sec']
  assert computed['4'] == pytest.approx(result['ratio'] * 4 * 4 / 0.9e-3)
  # Its step takes 0.26 ms, and more threads are 1.2 times as fast.
  assert computed['16'] == pytest.approx(result['ratio'] * 4 * 1.2 / 0.26e-3)


@pytest.mark.parametrize('learner', [0.02, 0.2, 2., 20.])
def test_more_cores_are_never_computed_to_give_less(learner):
  """Whatever share of a step is the learner's, whom more cores help little."""
  costs = [{**cost, 'learner': learner} for cost in _COSTS]
  result = measure.summarise(
      sizing.fit(config_lib.Config(), cores=2), 2, _WINDOWS, costs, [1e5])
  computed = result['computed_frames_per_sec']
  assert result['frames_per_sec'] <= computed['4'] <= computed['16']


def test_updates_are_of_the_fresh_steps_of_a_batch():
  config = config_lib.Config(
      learner=config_lib.LearnerConfig(batch_size=8, unroll_length=25),
      replay=config_lib.ReplayConfig(replay_fraction=0.75))
  # 30,000 frames in 2 s; 2 of 8 unrolls are fresh, of 25 steps of 4 frames.
  assert measure.updates_per_sec(
      config, _WINDOWS[1]) == pytest.approx(15_000 / 200)


@pytest.mark.parametrize('level, frames', [
    ('atari57', 4), ('catch,catch/mirrored', 1), ('dmlab30', 4)])
def test_frames_of_a_step_are_those_of_the_levels(level, frames):
  assert measure.frames_per_step(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level))) == frames


def test_tables_show_the_numbers(result, capsys):
  report.show({'setting': 'a setting', 'peak_pss_mib': 1234.,
               'start_to_first_update_secs': 5.,
               'speedups': {'parameters': 'by pigeon'}, **result})
  shown = capsys.readouterr().out
  for words in ('a setting', '0.9000', '0.833', '16,000', '13,333', '1,234',
                'data plane alone', '4 × 20', 'by pigeon'):
    assert words in shown


def test_difference_is_reported_by_role(result):
  # The rest of the ratio: what roles cost beyond their parts, and idleness.
  extra = result['extra_cpu_ms_per_step']
  assert extra == pytest.approx(dict(actors=0.7 - 0.64, learner=0.28 - 0.26))
  whole = sum(result['cpu_ms_per_step'].values())
  used = 1 - result['idle_share'] / (1 - result['stolen_share'])
  assert result['ratio'] == pytest.approx(
      result['sum_cpu_ms_per_step'] / whole * used)


def test_levels_without_an_emulator_do_without_it():
  config = sizing.fit(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level='catch')), cores=4)
  costs = [{k: v for k, v in cost.items() if k != 'emulator'}
           for cost in _COSTS]
  result = measure.summarise(config, 4, _WINDOWS, costs, [1e5])
  assert 'emulator' not in result['parts_cpu_ms_per_step']
  # A step of that level is one frame.
  assert result['allowed_frames_per_sec'] == pytest.approx(4 * 0.9 / 0.9e-3)
