"""DMLab-30, thirty tasks of DeepMind Lab (Beattie et al. 2016).

The package `deepmind_lab` is imported on construction only. It has to be built
from https://github.com/google-deepmind/lab (see its
python/pip_package/README.md).
"""

import contextlib
import difflib
import importlib.util
import pathlib
import shutil
from typing import Iterator
import uuid

import dm_env
from dm_env import specs
import numpy as np

from impala_tf import config as config_lib
from impala_tf.envs import domain
from impala_tf.envs import environment
from impala_tf.storage import files

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
NAMES = (
    'explore_goal_locations_large',
    'explore_goal_locations_small',
    'explore_object_locations_large',
    'explore_object_locations_small',
    'explore_object_rewards_few',
    'explore_object_rewards_many',
    'explore_obstructed_goals_large',
    'explore_obstructed_goals_small',
    'language_answer_quantitative_question',
    'language_execute_random_task',
    'language_select_described_object',
    'language_select_located_object',
    'lasertag_one_opponent_large',
    'lasertag_one_opponent_small',
    'lasertag_three_opponents_large',
    'lasertag_three_opponents_small',
    'natlab_fixed_large_map',
    'natlab_varying_map_randomized',
    'natlab_varying_map_regrowth',
    'psychlab_arbitrary_visuomotor_mapping',
    'psychlab_continuous_recognition',
    'psychlab_sequential_comparison',
    'psychlab_visual_search',
    'rooms_collect_good_objects_test',
    'rooms_collect_good_objects_train',
    'rooms_exploit_deferred_effects_test',
    'rooms_exploit_deferred_effects_train',
    'rooms_keys_doors_puzzle',
    'rooms_select_nonmatching_object',
    'rooms_watermaze',
    'skymaze_irreversible_path_hard',
    'skymaze_irreversible_path_varied',
)
_NEED_DATASET = ('psychlab_arbitrary_visuomotor_mapping',
                 'psychlab_continuous_recognition')

# Mixed into every episode's seed, so that evaluation generates other levels
# than training, where Lab's default of 0 holds. It is the value that Lab's
# documentation reserves and the paper's published code uses.
_EVALUATION_MIXER_SEED = 0x600D5EED
_MAX_SEED = 2**31 - 1  # Exclusive, as in the published code; Lab takes a C int.


class LabError(RuntimeError):
  """A failure of Lab during play: one line with the level and the cause.

  It is no `UserError`, since an actor that is started anew may go on.
  """


def check_name(name: str) -> None:
  """Raises ConfigError for an unknown level, or where Lab is not installed.

  Args:
    name: name of the level without 'dmlab30/'.
  """
  if name not in NAMES:
    near = difflib.get_close_matches(name, NAMES, n=3)
    hint = f'did you mean {" or ".join(near)}?' if near else (
        'names are those of levels/contributed/dmlab30, such as '
        'rooms_watermaze')
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: there is no level dmlab30/{name}; {hint}')
  if importlib.util.find_spec('deepmind_lab') is None:
    raise config_lib.ConfigError(
        f'dmlab30/{name} needs the package deepmind_lab, which has to be built '
        'from https://github.com/google-deepmind/lab (see its '
        'python/pip_package/README.md)')


class LevelCache:
  """A cache of compiled maps in a directory that processes may share.

  Many levels make new maps, whose compilation delays their episodes. Lab asks
  the cache before it compiles a map and hands the map over afterwards. Keys are
  file names with a digest of the map's source.
  """

  def __init__(self, directory: str):
    """Makes the directory; raises ConfigError where that cannot be."""
    self._directory = pathlib.Path(directory)
    try:
      self._directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise config_lib.ConfigError(
          f'DmlabConfig.level_cache_dir: {directory} cannot be made: {error}'
      ) from error

  def fetch(self, key: str, pk3_path: str) -> bool:
    """Copies the map to `pk3_path`; returns whether there was one."""
    try:
      shutil.copyfile(self._directory / key, pk3_path)
    except FileNotFoundError:
      return False
    return True

  def write(self, key: str, pk3_path: str) -> None:
    """Keeps the map at `pk3_path`, unless there is one already."""
    path = self._directory / key
    if path.exists():
      return
    # Renamed when it is whole, so that no process fetches half of it. Processes
    # that write one map at once write the same bytes to different files.
    temporary = self._directory / f'.{key}.{uuid.uuid4().hex}.part'
    try:
      shutil.copyfile(pk3_path, temporary)
      temporary.replace(path)
    finally:
      temporary.unlink(missing_ok=True)


class DmlabEnvironment(environment.BatchedEnvironment):
  """E copies of one level, each a `deepmind_lab.Lab`, stepped in turn.

  Actions are those of table D.2, held for `action_repeats` frames, whose
  rewards are summed, raw. The observation is the last frame, uint8 [H, W, 3].

  Levels end by themselves, most of them when their time is up. Lab does not
  report why. As in the paper's published code, every end is a termination,
  FIRST with discount 0, and never a truncation.

  Environment i draws the seeds of its episodes from its own generator, which is
  seeded with `seed + i`.

  Evaluation generates other levels than training (`mixerSeed`), and plays the
  held-out '_test' in place of a level that is named '_train'.

  Instructions are Lab's observation INSTR, which is empty in most levels.
  """

  def __init__(self, name: str, num_envs: int, seed: int,
               config: config_lib.DmlabConfig, training: bool,
               instruction_length: int = 0):
    """Starts the simulators.

    Args:
      name: one of `NAMES`.
      num_envs: E.
      seed: 0 or more. The E seeds from it on should be no other actor's.
      config: how the level is played.
      training: False for evaluation; see above.
      instruction_length: L, number of words of an instruction that the agent
        gets; 0 for no instructions.

    Raises:
      ConfigError: for an unknown level, one that is held out from training or
        lacks its data set, or where Lab is not installed or does not start.
    """
    check_name(name)
    if training and name.endswith('_test'):
      raise config_lib.ConfigError(
          f'dmlab30/{name} is held out for evaluation; train on '
          f'dmlab30/{name.removesuffix("_test")}_train, which is evaluated on '
          'it')
    if not training and name.endswith('_train'):
      name = f'{name.removesuffix("_train")}_test'
    if name in _NEED_DATASET and config.dataset_path is None:
      raise config_lib.ConfigError(
          f'dmlab30/{name} needs DmlabConfig.dataset_path, the directory of '
          'brady_konkle_oliva2008 (see its README.md in the data/ of Lab)')
    shape = (config.height, config.width, 3)
    super().__init__(
        f'dmlab30/{name}', num_envs, environment.discrete(len(ACTIONS)),
        observation_spec=specs.Array(shape, np.uint8, 'observation'),
        frames_per_step=config.action_repeats,
        instruction_length=instruction_length)
    # Lab computes only the observations that it is asked for.
    self._observed = ['RGB_INTERLEAVED']
    if instruction_length:
      self._observed.append('INSTR')
    self._observation = np.zeros((num_envs,) + shape, np.uint8)
    self._rngs = [np.random.default_rng(seed + i) for i in range(num_envs)]
    self._labs = []
    self._start(name, config, training)

  def _start(self, name: str, config: config_lib.DmlabConfig, training: bool):
    """Makes all simulators; raises ConfigError and leaves none if one fails."""
    settings = {'width': config.width, 'height': config.height,
                'logLevel': 'WARN'}
    if config.dataset_path is not None:
      settings['datasetPath'] = config.dataset_path
    if not training:
      settings['allowHoldOutLevels'] = 'true'
      settings['mixerSeed'] = _EVALUATION_MIXER_SEED
    cache = None
    if config.level_cache_dir is not None:
      cache = LevelCache(config.level_cache_dir)
    try:
      import deepmind_lab  # Lazily: it is a simulator.
      for _ in range(self.num_envs):
        self._labs.append(deepmind_lab.Lab(
            f'contributed/dmlab30/{name}', self._observed,
            config={key: str(value) for key, value in settings.items()},
            renderer=config.renderer, level_cache=cache))
    except (ImportError, TypeError, ValueError, RuntimeError) as error:
      self.close()
      raise config_lib.ConfigError(
          f'{self.level}: DeepMind Lab does not start: '
          f'{files.one_line(error, None)}') from error

  def reset(self) -> dm_env.TimeStep:
    for i in range(self.num_envs):
      with self._explained(i):
        self._begin_episode(i)
        self._observe(i)
    return self._first(self._observation)

  def _step(self, actions: np.ndarray) -> dm_env.TimeStep:
    step_type = np.full(self.num_envs, dm_env.StepType.MID, np.uint8)
    reward = np.zeros(self.num_envs, np.float32)
    for i, lab in enumerate(self._labs):
      with self._explained(i):
        reward[i] = lab.step(ACTIONS[actions[i]],
                             num_steps=self.frames_per_step)
        # An episode that has ended has no observation: begin the next.
        if not lab.is_running():
          step_type[i] = dm_env.StepType.FIRST
          self._begin_episode(i)
        self._observe(i)
    return dm_env.TimeStep(
        step_type=step_type, reward=reward,
        discount=(step_type != dm_env.StepType.FIRST).astype(np.float32),
        observation=self._observation)

  def _begin_episode(self, i: int):
    # By keyword, since the first argument is the episode's number. Lab refuses
    # NumPy's integers.
    self._labs[i].reset(seed=int(self._rngs[i].integers(_MAX_SEED)))

  def _observe(self, i: int):
    observations = self._labs[i].observations()
    self._observation[i] = observations['RGB_INTERLEAVED']
    if self.instruction_length:
      self._instruct(i, observations['INSTR'])

  @contextlib.contextmanager
  def _explained(self, i: int) -> Iterator[None]:
    """Turns errors of environment i's simulator or cache into `LabError`s."""
    try:
      yield
    except (RuntimeError, ValueError, OSError) as error:
      raise LabError(f'{self.level}: DeepMind Lab failed in environment {i}: '
                     f'{files.one_line(error, None)}') from error

  def render(self) -> np.ndarray:
    """Returns the last frame in colours, even where Lab has ended."""
    return self._observation[0].copy()

  def close(self) -> None:
    for lab in self._labs:
      lab.close()


def _make(name: str, num_envs: int, seed: int, config: config_lib.Config,
          training: bool) -> DmlabEnvironment:
  return DmlabEnvironment(name, num_envs, seed, config.dmlab, training,
                          config.agent.instruction_length)


DOMAIN = domain.Domain(
    forms=('dmlab30/<name>',), check=check_name, make=_make,
    has_instructions=True, is_uniform=lambda config: True)
