"""Stands in for `deepmind_lab`, which cannot be installed by pip.

It takes and refuses what `Lab` does in Lab's python/dmlab_module.c, with its
words. Its pictures follow from seed, settings and actions, and show nothing.
"""

import hashlib
import os
import tempfile

import numpy as np

_NUM_ACTIONS = 7
_FPS = 60
_EPISODE_SECS = 2
_LEVEL_ERROR = '[string "x.lua"]:7:\n\tstack traceback:\n\t\tx.lua:1: in init'

# Every simulator that was made; tests look at what it was asked.
labs = []
# What the next call of a method raises: {'reset': RuntimeError('...')}.
failures = {}


class Lab:
  """One simulator."""

  def __init__(self, level, observations, config={},  # noqa: B006  As there.
               renderer='software', level_cache=None):
    if type(level) is not str or type(renderer) is not str:
      raise TypeError('argument must be str')
    if type(observations) is not list or type(config) is not dict:
      raise TypeError('argument must be list, dict')
    if renderer not in ('software', 'hardware'):
      raise RuntimeError('Failed to set renderer must be "hardware" or '
                         f'"software" actual "{renderer}"!')
    self.calls = []
    self.level, self.config = level, dict(config)
    self.observed, self.renderer = list(observations), renderer
    self.level_cache = level_cache
    self._check_settings()
    for name in observations:
      if name not in ('RGB_INTERLEAVED', 'INSTR'):
        raise ValueError(f"Unknown observation '{name}'.")
    self._status = 'uninitialized'
    self._frames = self._episode = 0
    labs.append(self)

  def _check_settings(self):
    for item in self.config.items():
      if any(type(part) is not str for part in item):
        raise TypeError('bad argument type for built-in operation')
    if not self.level.startswith('contributed/dmlab30/'):
      raise RuntimeError(f"Invalid levelName flag '{self.level}' - \"none\"")
    try:
      self._width, self._height = (
          int(self.config.get(name, default))
          for name, default in (('width', '320'), ('height', '240')))
      seed = int(self.config.get('mixerSeed', '0'))
      secs = float(self.config.get('episodeLengthSeconds', _EPISODE_SECS))
      self._length = int(secs * int(self.config.get('fps', _FPS)))
    except ValueError as error:
      raise RuntimeError('Failed to apply setting') from error
    if not 0 <= seed < 2**32:
      raise RuntimeError("Failed to apply setting 'mixerSeed'")
    held_out = self.level.endswith('_test')
    if held_out and self.config.get('allowHoldOutLevels') != 'true':
      raise RuntimeError(
          f'Failed to init environment - "{_LEVEL_ERROR}"')

  def _fail(self, method):
    if method in failures:
      raise failures.pop(method)

  def reset(self, episode=-1, seed=None):
    self.calls.append(('reset', episode, seed))
    if type(seed) not in (int, type(None)):
      raise ValueError("'seed' must be int or None, was "
                       f"'{type(seed).__name__}'.")
    if self._status == 'closed':
      raise RuntimeError('Failed to start environment')
    self._fail('reset')
    self._episode = episode if episode >= 0 else self._episode + 1
    self._seed = seed if seed is not None else np.random.randint(2**31)
    self._status, self._frames, self._pressed = 'running', 0, 0
    if self.level_cache:
      self._make_map()
    return True

  def _make_map(self):
    """What Lab does with a level's map: asks, else compiles and hands over."""
    source = self.level.encode()
    key = (f'{os.path.basename(self.level)}_noaas_'
           f'{hashlib.md5(source).hexdigest()}')
    with tempfile.TemporaryDirectory() as directory:
      path = os.path.join(directory, 'map.pk3')
      if not self.level_cache.fetch(key, path):
        self.calls.append('compile')
        with open(path, 'wb') as file:
          file.write(source)
        self.level_cache.write(key, path)
      with open(path, 'rb') as file:
        assert file.read() == source

  def step(self, action, num_steps=1):
    self.calls.append(('step', action, num_steps))
    if not isinstance(action, np.ndarray):
      raise TypeError('argument 1 must be numpy.ndarray')
    if not self.is_running():
      raise RuntimeError('Environment in wrong status to advance.')
    if action.shape != (_NUM_ACTIONS,):
      raise ValueError(f'action must have shape ({_NUM_ACTIONS})')
    if action.dtype != np.intc:
      raise ValueError('action must have dtype np.intc')
    self._fail('step')
    self._pressed = (31 * self._pressed + int(action @ range(1, 8))) % 2**31
    self._frames += num_steps
    if self._frames >= self._length:
      self._status = 'terminated'
    return float(num_steps * action[4])  # Fire, and be rewarded.

  def observations(self):
    self.calls.append('observations')
    if not self.is_running():
      raise RuntimeError(
          'Environment in wrong status for call to observations()')
    rng = np.random.default_rng([
        self._seed, int(self.config.get('mixerSeed', '0')), self._frames,
        self._pressed])
    shape = (self._height, self._width, 3)
    found = {'RGB_INTERLEAVED': rng.integers(256, size=shape, dtype=np.uint8),
             'INSTR': f'find {self._seed} at {self._frames}'}
    return {name: found[name] for name in self.observed}

  def num_steps(self):
    return self._frames

  def is_running(self):
    return self._status == 'running'

  def observation_spec(self):
    shape = (self._height, self._width, 3)
    return [{'name': 'RGB_INTERLEAVED', 'dtype': np.uint8, 'shape': shape},
            {'name': 'INSTR', 'dtype': str, 'shape': ()}]

  def action_spec(self):
    names = ('LOOK_LEFT_RIGHT_PIXELS_PER_FRAME',
             'LOOK_DOWN_UP_PIXELS_PER_FRAME', 'STRAFE_LEFT_RIGHT',
             'MOVE_BACK_FORWARD', 'FIRE', 'JUMP', 'CROUCH')
    ranges = [(-512, 512)] * 2 + [(-1, 1)] * 2 + [(0, 1)] * 3
    return [{'name': name, 'min': low, 'max': high}
            for name, (low, high) in zip(names, ranges)]

  def close(self):
    was_open = self._status != 'closed'
    self._status = 'closed'
    return was_open
