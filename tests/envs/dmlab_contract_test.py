"""Contract of DeepMind Lab and its adapter, on the real simulator too.

Each test runs on the stand-in and, if DeepMind Lab is installed, on the real
simulator. Its docs/users and python/dmlab_module.c say what is expected.
"""

import importlib.util
import os
import pathlib
import sys

import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import dmlab
from tests.fixtures import fake_deepmind_lab

needs_lab = pytest.mark.skipif(
    importlib.util.find_spec('deepmind_lab') is None,
    reason='needs DeepMind Lab: docs/dmlab.md')

MID = 1
LEVEL = 'contributed/dmlab30/rooms_watermaze'  # Its map comes with Lab.
HELD_OUT = 'contributed/dmlab30/rooms_collect_good_objects_test'
# Makes a map of each seed, which takes the real one seconds.
MAPS = 'contributed/dmlab30/explore_goal_locations_small'
SIZE = {'width': '96', 'height': '72'}
NOTHING = np.zeros(7, np.intc)
FORWARD, LOOK_LEFT, FORWARD_LOOK_RIGHT, FIRE = 0, 4, 7, 8


@pytest.fixture(name='lab', params=[
    'stand-in', pytest.param('real', marks=needs_lab)])
def _lab(request, monkeypatch, tmp_path):
  if request.param == 'stand-in':
    monkeypatch.setitem(sys.modules, 'deepmind_lab', fake_deepmind_lab)
    # Asked for, but not used; the real one packs its maps with the real one.
    programs_path = tmp_path / 'programs'
    programs_path.mkdir()
    (programs_path / 'zip').touch(mode=0o755)
    monkeypatch.setenv('PATH', str(programs_path), prepend=os.pathsep)
  yield dmlab.import_lab('test')
  fake_deepmind_lab.failures.clear()


@pytest.fixture(name='make')
def _make(lab, tmp_path):
  """Makes simulators that are closed at the end of the test."""
  made = []

  def make(level=LEVEL, observations=('RGB_INTERLEAVED', 'INSTR'), settings=(),
           **kwargs):
    folder = tmp_path / str(len(made))
    folder.mkdir()
    made.append(lab.Lab(level, list(observations),
                        config={**SIZE, **dict(settings)},
                        temp_folder=str(folder), **kwargs))
    return made[-1]

  yield make
  for simulator in made:
    simulator.close()


@pytest.mark.parametrize('arguments, error, message', [
    ({'config': {'width': 96}}, TypeError, 'bad argument type'),
    ({'observations': ['NOTHING']}, ValueError,
     "Unknown observation 'NOTHING'"),
    ({'renderer': 'gpu'}, RuntimeError,
     'Failed to set renderer must be "hardware" or "software" actual "gpu"'),
    ({'config': {'width': 'wide'}}, RuntimeError,
     "Failed to apply setting 'width = wide' - \"Invalid int setting wide"),
    ({'config': {'width': '97'}}, RuntimeError,
     "'width' must be a positive multiple of 4. Actual 97"),
    ({'config': {'shoeSize': '7'}}, RuntimeError,
     'Failed to init environment - (?s:.*)Invalid setting: "shoeSize" = "7"'),
    ({'level': 'none'}, RuntimeError,
     'Failed to init environment - "Level not found: '),
    ({'level': HELD_OUT}, RuntimeError, 'Failed to init environment - ')])
def test_what_is_refused_raises(lab, tmp_path, arguments, error, message):
  good = {'level': LEVEL, 'observations': ['INSTR'],
          'temp_folder': str(tmp_path)}
  with pytest.raises(error, match=message):
    lab.Lab(**{**good, **arguments})


@pytest.mark.parametrize('training', [True, False])
def test_lab_has_every_level_and_takes_the_settings(lab, training):
  del lab  # Only to be there.
  for domain_name, names in (('dmlab30', dmlab.NAMES),
                             ('dmlab', dmlab.OTHER_NAMES)):
    for name in names:
      if name.startswith('natlab') or training and name.endswith('_test'):
        continue  # Its maps may be missing; it is held out.
      dmlab.DmlabEnvironment(
          name, 1, 0, config.DmlabConfig(
              level_cache_dir=None, dataset_path='dummy'),
          training, instruction_length=1, domain_name=domain_name).close()


def test_calls_in_the_wrong_order_or_of_wrong_types_raise(make):
  simulator = make(settings={'episodeLengthSeconds': '2'})
  with pytest.raises(RuntimeError, match='wrong status to advance'):
    simulator.step(NOTHING)
  with pytest.raises(ValueError, match="int or None, was 'numpy.int64'"):
    simulator.reset(seed=np.int64(1))
  simulator.reset(seed=1)
  for action, message in ((NOTHING.astype(np.int64), 'dtype np.intc'),
                          (NOTHING[:6], 'shape .7.')):
    with pytest.raises(ValueError, match=f'action must have {message}'):
      simulator.step(action)
  assert simulator.is_running() and simulator.num_steps() == 0
  simulator.step(NOTHING, num_steps=119)
  assert simulator.is_running()
  simulator.step(NOTHING, num_steps=4)  # It ends within.
  assert not simulator.is_running()
  with pytest.raises(RuntimeError, match='wrong status'):
    simulator.observations()
  with pytest.raises(RuntimeError, match='wrong status to advance'):
    simulator.step(NOTHING)
  simulator.reset(seed=2)
  assert simulator.is_running() and simulator.num_steps() == 0
  assert simulator.close() is True and simulator.close() is False
  # To reset it now would be a segmentation fault.
  with pytest.raises(RuntimeError, match='wrong status to advance'):
    simulator.step(NOTHING)


def _picture(simulator, seed):
  simulator.reset(seed=seed)
  simulator.step(NOTHING, num_steps=4)
  return simulator.observations()['RGB_INTERLEAVED'].tobytes()


def test_seeds_and_mixer_seed_decide_what_is_seen(make):
  first, again, other = make(), make(), make()
  evaluation = make(settings={'mixerSeed': str(0x600D5EED)})
  seen = [_picture(first, seed) for seed in (1, 2)]
  assert [_picture(again, seed) for seed in (1, 2)] == seen
  assert _picture(other, 3) != seen[0]
  assert _picture(evaluation, 1) != seen[0]


class _Cache:
  """A cache that is a dict, and notes what it is asked for."""

  def __init__(self, error=None):
    self.maps, self.asked, self.error = {}, [], error

  def fetch(self, key, pk3_path):
    self.asked.append(key)
    if self.error is not None:
      raise self.error
    if key in self.maps:
      pathlib.Path(pk3_path).write_bytes(self.maps[key])
    return key in self.maps

  def write(self, key, pk3_path):
    self.maps[key] = pathlib.Path(pk3_path).read_bytes()


def test_map_that_comes_with_lab_is_never_asked_for(make):
  cache = _Cache()
  make(level_cache=cache).reset(seed=1)
  assert not cache.asked


@pytest.mark.slow  # Seconds for each map.
def test_maps_are_asked_for_by_name_and_digest_and_used(make):
  cache = _Cache()
  first, second = (make(MAPS, level_cache=cache) for _ in range(2))
  seen = _picture(first, 1)
  key, = cache.maps
  name, kind, digest = key.rsplit('_', 2)
  assert (name, kind, len(digest)) == ('explore_maze', 'noaas', 32)
  assert _picture(second, 1) == seen
  assert cache.asked == [key, key] and len(cache.maps) == 1
  first.reset(seed=2)
  assert len(cache.maps) == 2


@pytest.mark.slow  # It compiles the map all the same.
def test_error_of_the_cache_comes_out_of_reset(make):
  cache = _Cache(OSError('No space left on device'))
  with pytest.raises(OSError, match='No space left'):
    make(MAPS, level_cache=cache).reset(seed=1)
  assert cache.asked and not cache.maps


# The adapter.


def test_environment_shows_what_lab_shows(make):
  env = dmlab.DmlabEnvironment(
      'rooms_watermaze', 2, 3, config.DmlabConfig(level_cache_dir=None), True,
      instruction_length=4)
  seed = int(np.random.default_rng(3 + 1).integers(2**31 - 1))
  simulator = make()
  row = env.reset()
  simulator.reset(seed=seed)
  for action in (FORWARD, LOOK_LEFT, FORWARD_LOOK_RIGHT):
    np.testing.assert_array_equal(
        row.observation[1], simulator.observations()['RGB_INTERLEAVED'])
    row = env.step(np.array([FIRE, action], np.int32))
    reward = simulator.step(dmlab.ACTIONS[action], num_steps=4)
    assert row.reward[1] == reward and row.step_type.tolist() == [MID, MID]
  assert env.instruction.shape == (2, 4)
  env.close()
  assert importlib.util.find_spec('deepmind_lab')  # Once it is imported, too.
