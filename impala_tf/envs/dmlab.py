"""DeepMind Lab (Beattie et al. 2016): DMLab-30's thirty tasks, and Lab's own.

The package `deepmind_lab`, which no package index has, is imported lazily.
"""

import functools
import importlib
import importlib.util
import os
import shutil
import types
from typing import Any

from absl import logging
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import dmlab_files
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.envs import serial
from impala_tf.storage import files
from impala_tf.suites import dmlab30

# Table D.2 of Espeholt et al. 2018, in its order. Columns: look left/right and
# look down/up (pixels a frame), strafe left/right, move back/forward, fire,
# jump, crouch. Lab takes np.intc only, and rows that are contiguous.
ACTIONS = np.array([
    [0, 0, 0, 1, 0, 0, 0],    # Forward
    [0, 0, 0, -1, 0, 0, 0],   # Backward
    [0, 0, -1, 0, 0, 0, 0],   # Strafe left
    [0, 0, 1, 0, 0, 0, 0],    # Strafe right
    [-20, 0, 0, 0, 0, 0, 0],  # Look left
    [20, 0, 0, 0, 0, 0, 0],   # Look right
    [-20, 0, 0, 1, 0, 0, 0],  # Forward and look left
    [20, 0, 0, 1, 0, 0, 0],   # Forward and look right
    [0, 0, 0, 0, 1, 0, 0],    # Fire
], np.intc)

# Lab's levels/contributed/dmlab30. Two tasks have a variant that is held out
# for evaluation.
NAMES = tuple(sorted({level.partition('/')[2] for level in (
    *dmlab30.SUITE.train_levels, *dmlab30.SUITE.levels)}))
# Lab's own levels/. The paper has seekavoid_arena_01 (table 1, figure 4).
OTHER_NAMES = (
    'lt_chasm', 'lt_hallway_slope', 'lt_horseshoe_color',
    'lt_space_bounce_hard', 'nav_maze_random_goal_01',
    'nav_maze_random_goal_02', 'nav_maze_random_goal_03', 'nav_maze_static_01',
    'nav_maze_static_02', 'nav_maze_static_03', 'seekavoid_arena_01',
    'stairway_to_melon')
_NEED_DATASET = ('psychlab_arbitrary_visuomotor_mapping',
                 'psychlab_continuous_recognition')

# Mixed into every episode's seed, so that evaluation generates other levels
# than training, which has Lab's default of 0. Lab's documentation reserves this
# value, and the paper's published code uses it.
_EVALUATION_MIXER_SEED = 0x600D5EED
_NUM_SEEDS = 2**31 - 1  # As in the published code; Lab takes a C int.

_NAMES = {'dmlab30': NAMES, 'dmlab': OTHER_NAMES}
# The directories in which Lab has them.
_DIRECTORIES = {'dmlab30': 'contributed/dmlab30/', 'dmlab': ''}


def check_name(domain_name: str, name: str) -> None:
  """Raises ConfigError for an unknown level, or if Lab or zip is missing.

  `domain_name` is 'dmlab30', or 'dmlab' for Lab's own levels.
  """
  level, names = f'{domain_name}/{name}', _NAMES[domain_name]
  domain.check_known(name, f'{domain_name}/{{}}', names,
                     f'names are those of Lab, such as {names[-3]}')
  if importlib.util.find_spec('deepmind_lab') is None:
    raise config_lib.ConfigError(
        f'{level} needs the package deepmind_lab; docs/dmlab.md '
        'says how to install it')
  if shutil.which('zip') is None:
    raise config_lib.ConfigError(
        f'{level} needs the program zip, with which DeepMind Lab packs '
        'the maps that it compiles; apt-get install zip')


class DmlabEnvironment(serial.SerialEnvironment):
  """E copies of one level, each a `deepmind_lab.Lab`, stepped in turn.

  Actions are those of table D.2, held for `action_repeats` frames, whose raw
  rewards are summed. The observation is the last frame, uint8 [H, W, 3].

  Most levels end when their time is up, but Lab does not report why they end.
  As in the paper's published code, every end terminates: FIRST with discount 0.

  The same seeds in the same order show the same, except lasertag's opponents
  after some steps. A repeated seed may look different: language levels keep the
  walls with which a layout first appeared.

  Evaluation generates other levels than training (`mixerSeed`), and plays the
  held-out '_test' instead of a level named '_train'.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               config: config_lib.DmlabConfig, training: bool,
               instruction_length: int = 0, domain_name: str = 'dmlab30'):
    """Starts the simulators of a level that `check_name` has passed.

    `instruction_length` 0 means no instructions. Raises ConfigError if the
    level is held out, lacks its data set or maps, or does not start.
    """
    if training and name.endswith('_test'):
      raise config_lib.ConfigError(
          f'dmlab30/{name} is held out for evaluation; train on '
          f'dmlab30/{name.removesuffix("_test")}_train, which is evaluated on '
          'it')
    if not training and name.endswith('_train'):
      name = f'{name.removesuffix("_train")}_test'
    if name in _NEED_DATASET:
      if config.dataset_path is None:
        raise config_lib.ConfigError(
            f'{domain_name}/{name} needs DmlabConfig.dataset_path, the '
            'directory of brady_konkle_oliva2008 (see its README.md in the '
            "data/ of Lab), or 'dummy' for plain colours in place of "
            'photographs')
      dmlab_files.check_dataset(config.dataset_path)
    level = f'{domain_name}/{name}'
    # Lab computes only the observations that it is asked for.
    observed = ['RGB_INTERLEAVED'] + ['INSTR'] * bool(instruction_length)
    # Some failures of it end the process, whose log then has the level; with
    # environment processes their parent names it.
    logging.info('Starting %d of %s', num_envs, level)
    lab = import_lab(level)
    dmlab_files.check_maps(name, lab.runfiles_path())
    cache = None
    if config.level_cache_dir is not None:
      cache = dmlab_files.LevelCache(os.path.join(
          config.level_cache_dir,
          dmlab_files.compilation_digest(lab.runfiles_path())))
    settings = _settings(config, training)
    self._scratch = dmlab_files.Scratch()

    def make(i, simulator_seed):
      del i, simulator_seed  # Episodes have seeds.
      return lab.Lab(
          f'{_DIRECTORIES[domain_name]}{name}', observed, config=settings,
          renderer=config.renderer, level_cache=cache,
          temp_folder=self._scratch.make())

    try:
      labs = serial.Simulators(make, num_envs, seed, f'{level}: DeepMind Lab')
    except BaseException:
      self._scratch.close()
      raise
    shape = (config.height, config.width, 3)
    super().__init__(
        level, labs, environment.discrete(len(ACTIONS)),
        observation_spec=specs.Array(shape, np.uint8, 'observation'),
        frames_per_step=config.action_repeats,
        instruction_length=instruction_length)
    self._rngs = [np.random.default_rng(seed + i) for i in range(num_envs)]
    self._num_seeds = training and config.num_seeds or _NUM_SEEDS

  def _begin(self, i: int) -> np.ndarray:
    # By keyword, since the first argument is the episode's number. Lab refuses
    # NumPy's integers.
    self._simulators[i].reset(seed=int(self._rngs[i].integers(self._num_seeds)))
    return self._observe(i)

  def _advance(self, i: int, action: int) -> serial.Transition:
    lab = self._simulators[i]
    reward = lab.step(ACTIONS[action], num_steps=self.frames_per_step)
    # An episode that has ended has no observation.
    if lab.is_running():
      return serial.Transition(self._observe(i), reward, False, False)
    return serial.Transition(self._observation[i], reward, True, False)

  def _observe(self, i: int) -> np.ndarray:
    observations = self._simulators[i].observations()
    if self.instruction_length:
      self._instruct(i, observations['INSTR'])
    return observations['RGB_INTERLEAVED']

  def render(self) -> np.ndarray:
    """Returns environment 0's last observed frame, in colour."""
    return self._observation[0].copy()

  def close(self) -> None:
    super().close()
    self._scratch.close()


def _settings(config: config_lib.DmlabConfig, training: bool) -> dict[str, str]:
  settings: dict[str, Any] = {
      'width': config.width, 'height': config.height, 'logLevel': 'WARN'}
  if config.dataset_path is not None:
    settings['datasetPath'] = config.dataset_path
  if not training:
    settings['allowHoldOutLevels'] = 'true'
    settings['mixerSeed'] = _EVALUATION_MIXER_SEED
  return {key: str(value) for key, value in settings.items()}


def import_lab(level: str) -> types.ModuleType:
  """Imports DeepMind Lab; raises ConfigError, with `level`, if that fails."""
  # Read when the first simulator draws: threads that rasterise small pictures
  # cost more than they save, and take cores from other simulators.
  os.environ.setdefault('LP_NUM_THREADS', '0')
  try:
    return importlib.import_module('deepmind_lab')
  except ImportError as error:
    raise config_lib.ConfigError(
        f'{level}: DeepMind Lab does not start: {files.one_line(error, None)}; '
        'docs/dmlab.md says what it needs') from error


def _domain(name: str) -> domain.Domain:
  return domain.Domain(
      forms=(f'{name}/<name>',), check=functools.partial(check_name, name),
      make=lambda level, num_envs, seed, config, training: DmlabEnvironment(
          level, num_envs, seed, config.dmlab, training,
          config.agent.instruction_length, name),
      has_instructions=True, is_uniform=lambda config: True)


DMLAB30 = _domain('dmlab30')
DMLAB = _domain('dmlab')
