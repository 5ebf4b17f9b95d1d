"""Knobs of what is played, of who plays, and of what is learned from again.

These are levels, the settings of simulators, actors, workers that learn by
themselves, and the replay.

`config` has all other sections, and these under the same names. Standard
library only.
"""

import dataclasses
from typing import Optional

from impala_tf import config_fields

_knob = config_fields.knob


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig(config_fields.Section):
  """Tasks that are played.

  Attributes:
    level: task of one agent. A suite, 'atari57' or 'dmlab30'; several levels
      with commas between them; or one of
      'atari/<game>' in snake case: 'atari/space_invaders'.
      'catch'; 'catch/delayed' pays for five balls in one sum; 'catch/mirrored'
        is another task at 100 times the reward, to be learned beside it.
      'cartpole_swingup': a hanging pole is to be swung up and balanced.
      'tmaze/<length>': a signal is to be remembered for so many steps, to 1000.
      'minigrid/<id>', without its 'MiniGrid-': 'minigrid/DoorKey-5x5-v0'.
      'babyai/<id>' likewise; missions: see `AgentConfig.instruction_length`.
      'dmlab30/<name>', a task of DMLab-30: 'dmlab30/rooms_watermaze'.
      'dmlab/<name>' for other levels of Lab: 'dmlab/seekavoid_arena_01'.
      'vizdoom/<scenario>' of that package, the extra 'vizdoom'.
      'control/<domain>/<task>' of dm_control's suite, the extra 'dm_control'.
      'gym/<id>' of Gymnasium; MuJoCo's need the extra 'mujoco', your own a
        file that registers them (docs/own_environment.md).
    kwargs: arguments by name for the constructors of 'gym/<id>' environments,
      such as {'size': 7}: numbers, strings, True, False, None, and lists and
      dicts of these.
  """
  level: str = _knob('atari/pong')
  kwargs: dict = config_fields.data_knob()


@dataclasses.dataclass(frozen=True)
class AtariConfig(config_fields.Section):
  """Settings of Atari (pre-processing: Mnih et al. 2016; table G.1).

  Attributes:
    action_repeats: emulator frames an action is held.
    frame_stack: frames in an observation.
    height, width: size of an observation.
    noop_max: an episode starts with 1 to this many no-op frames.
    max_episode_frames: games are truncated here, no-ops not counted (108,000
      are 30 minutes).
    life_loss_ends_episode: in training, a lost life gives discount 0 while the
      game goes on. Evaluation ignores it.
    full_action_set: all 18 actions instead of the game's own, as several games
      together need; what a game lacks (half of them in Skiing) is a no-op.
    sticky_action_probability: probability that the emulator repeats the last
      action.
  """
  action_repeats: int = _knob(4, at_least=1, unit='frames', source='table G.1')
  frame_stack: int = _knob(
      4, at_least=1, at_most=8, unit='frames', source='table G.1')
  height: int = _knob(84, at_least=36, unit='pixels', source='table G.1')
  width: int = _knob(84, at_least=36, unit='pixels', source='table G.1')
  noop_max: int = _knob(30, at_least=0, unit='frames', source='section 5.3.2')
  max_episode_frames: int = _knob(108_000, at_least=1)
  life_loss_ends_episode: bool = _knob(True, source='table G.1')
  full_action_set: bool = _knob(False, source='appendix G')
  sticky_action_probability: float = _knob(
      0.0, at_least=0, below=1, source='Machado et al. 2018')


@dataclasses.dataclass(frozen=True)
class DmlabConfig(config_fields.Section):
  """Settings of DeepMind Lab (table D.3).

  Attributes:
    action_repeats: frames an action is held.
    height, width: size of an observation.
    renderer: 'software' needs no GPU, 'hardware' does.
    dataset_path: directory of the photographs that two psychlab levels show
      (brady_konkle_oliva2008), or 'dummy' for plain colours in their place;
      None: there are none.
    level_cache_dir: directory of compiled maps, shared by all processes and
      kept between runs; it grows to 5 GB. None: each map is compiled anew.
    num_seeds: number of different episodes that training has of each level, so
      that maps come again, which are cached then; None: 2^31 - 1, as in the
      published code. Evaluation always has as many others.
  """
  action_repeats: int = _knob(4, at_least=1, unit='frames', source='table D.3')
  height: int = _knob(72, at_least=36, unit='pixels', source='table D.3')
  width: int = _knob(96, at_least=36, unit='pixels', source='table D.3')
  renderer: str = _knob('software', choices=('software', 'hardware'))
  dataset_path: Optional[str] = _knob(None)
  level_cache_dir: Optional[str] = _knob('~/.cache/impala_tf/dmlab_maps')
  num_seeds: Optional[int] = _knob(
      None, at_least=1, at_most=2**31 - 1, unit='episodes',
      source='published code')


@dataclasses.dataclass(frozen=True)
class VizdoomConfig(config_fields.Section):
  """Settings of VizDoom, which the paper does not have.

  Attributes:
    action_repeats: frames (35 are a second) an action is held.
    resolution: width x height in pixels at which Doom draws. The smallest is
      the fastest. Those of 16:9 have a wider field of view.
    subsample: n, to keep every n-th pixel of every n-th row: 2 makes 80 x 60 of
      160 x 120.
    game_variables: whether what the scenario tells besides the picture, such as
      health and ammunition, is observed beside it, in hundreds.
  """
  action_repeats: int = _knob(
      4, at_least=1, unit='frames', source='Kempka et al. 2016')
  resolution: str = _knob('160x120', unit='pixels', choices=(
      '160x120', '200x150', '256x144', '256x192', '320x180', '320x240',
      '400x225', '400x300', '512x288', '512x384', '640x360', '640x480'))
  subsample: int = _knob(2, at_least=1, at_most=8, unit='pixels')
  game_variables: bool = _knob(False)


@dataclasses.dataclass(frozen=True)
class ActorConfig(config_fields.Section):
  """The processes that play.

  Attributes:
    num_actors: processes; None: as many as fit the machine.
    num_envs: environments a process, stepped and inferred as one batch; None:
      what fits the machine. Several levels are shared out over all environments
      of a run in turn: a multiple of their number gives each the same share.
      Workers of A3C (`AsyncConfig`) have one each, whatever this is.
    env_processes: processes beside each of these that step its environments,
      so that none waits for another and inference is of those that are ready.
      Those that share a process still wait for each other. None: environments
      are stepped in turn, in lock-step, as Atari always is.
    env_timeout_secs: after which an environment process that is still at a
      step, or has not started, is taken for hung.
    max_restarts: restarts of one actor within `restart_window_secs`, after
      which the run ends with that actor's error.
    restart_window_secs: see `max_restarts`.
    pinned: whether each actor stays on a core of its own. Only where `train.sh`
      starts as many as there are cores, they have no `env_processes`, and no
      other run on the machine does so; runs in other containers are not seen.
    fetch_interval_unrolls: k; parameters are fetched as every kth unroll begins
      and kept until the next. More than 1 divides the traffic of parameters,
      and makes the policy lag grow (docs/scaling.md).
    synchronisation: who waits for whom (figure 2). 'none' is IMPALA: nobody
      does. The others are batched A2C (docs/baselines.md), where an update is
      of one unroll of each environment, by the newest parameters: 'trajectory'
      has actors play them and wait for the update, 'step' has the learner play
      all environments together, step by step.
    controlled_lag_updates: N, to have actors act with parameters exactly N
      learner updates old (appendix E.1), if `in_process`; None: with the newest
      there are.
  """
  num_actors: Optional[int] = _knob(
      None, at_least=1, unit='processes', source='section 3')
  num_envs: Optional[int] = _knob(None, at_least=1, unit='environments')
  env_processes: Optional[int] = _knob(
      None, at_least=1, unit='processes', source='section 3.1')
  env_timeout_secs: float = _knob(120.0, above=0)
  max_restarts: int = _knob(5, at_least=0)
  restart_window_secs: float = _knob(600.0, above=0)
  pinned: bool = _knob(True)
  fetch_interval_unrolls: int = _knob(1, at_least=1)
  synchronisation: str = _knob(
      'none', choices=('none', 'step', 'trajectory'), source='figure 2')
  controlled_lag_updates: Optional[int] = _knob(
      None, at_least=0, source='appendix E.1')


@dataclasses.dataclass(frozen=True)
class ReplayConfig(config_fields.Section):
  """Learning again from old unrolls (section 5.2.2).

  Attributes:
    replay_fraction: share of each batch that is sampled from the replay, which
      must be a whole number of unrolls; 0 for no replay. Replayed unrolls do
      not count as frames.
    pacing_unrolls: new unrolls that come, count as frames and enter the replay
      for each update where all of its batch is replayed, so that
      `replay_fraction` is 1; else None.
    capacity_unrolls: unrolls that the replay holds; the oldest make room for
      the newest.
    sampling: 'unrolls', each as likely; 'episodes', each as likely, of which
      the unrolls follow one by one; or 'priorities', by the critic's loss.
    episode_unrolls: most unrolls in an episode that is sampled as such, longer
      ones are cut. The replay holds `capacity_unrolls` / `episode_unrolls`
      episodes, however short: no more than the longest episode needs.
    core_state: memory with which a replayed unroll begins: 'stored', as the
      actor had it, or 'recomputed' by the newest parameters, from the episode's
      start on; needs sampling by episodes.
    priority_exponent: alpha; unrolls are sampled by the power of their loss.
    priority_correction: beta; updates are weighted by 1 / P**beta.
    survives_resume: write the replay with every checkpoint, which takes as much
      room on disk as in memory, so that a resumed run has it again.
  """
  replay_fraction: float = _knob(
      0.0, at_least=0, at_most=1, source='section 5.2.2')
  pacing_unrolls: Optional[int] = _knob(
      None, at_least=1, source='Schmitt et al. 2020, figure 2')
  capacity_unrolls: int = _knob(10_000, at_least=1, source='table D.3')
  sampling: str = _knob(
      'unrolls', choices=('unrolls', 'episodes', 'priorities'),
      source='Schmitt et al. 2020, supplement 1.2')
  episode_unrolls: int = _knob(32, at_least=1)
  core_state: str = _knob('stored', choices=('stored', 'recomputed'),
                          source='Schmitt et al. 2020, supplement 1.2')
  priority_exponent: float = _knob(
      0.6, at_least=0, source='Schaul et al. 2016, table 3')
  priority_correction: float = _knob(
      1.0, at_least=0, at_most=1, source='Schmitt et al. 2020, supplement 1.2')
  survives_resume: bool = _knob(False)


@dataclasses.dataclass(frozen=True)
class AsyncConfig(config_fields.Section):
  """Workers that share parameters without locks (Mnih et al. 2016).

  Only the algorithms of that paper read it: 'a3c', 'a3c_continuous',
  'one_step_q', 'one_step_sarsa' and 'n_step_q'. Their workers take turns in
  `ActorConfig.num_actors` processes. Those that learn values do not read
  `ImpalaConfig.correction`, `entropy_cost` and `baseline_cost`.

  Attributes:
    num_workers: K, workers with an environment each; or as many as there are
      processes, if those are more.
    max_segment_steps: t_max, most steps that a worker plays between two of its
      updates; an end of an episode ends them sooner. None: a whole episode,
      which is bootstrapped only where a time limit ends it.
    target_interval_frames: frames of all workers together after which the
      target network is replaced.
    epsilon_anneal_frames: frames of all workers together within which epsilon
      falls from 1 to each worker's final one.
    optimizer: 'shared_rmsprop', whose mean squares all workers share; or
      'rmsprop' or 'momentum_sgd', with those, or momenta, of each worker.
      `OptimizerConfig.decay` is the share of them that an update keeps.
    initial_mean_square: start of RMSProp's mean squares. The paper does not
      give it; TensorFlow 1 has 1.
    share_memory: whether workers on the learner's machine change the parameters
      in its memory; if not, they send gradients, as those of other machines do.
  """
  num_workers: int = _knob(
      16, at_least=1, unit='workers', source='Mnih et al. 2016, section 8')
  max_segment_steps: Optional[int] = _knob(
      5, at_least=1, source='Mnih et al. 2016, section 8')
  target_interval_frames: int = _knob(
      40_000, at_least=1, source='Mnih et al. 2016, section 8')
  epsilon_anneal_frames: int = _knob(
      4_000_000, at_least=1, source='Mnih et al. 2016, section 8')
  optimizer: str = _knob(
      'shared_rmsprop', choices=('shared_rmsprop', 'rmsprop', 'momentum_sgd'),
      source='Mnih et al. 2016, section 7')
  initial_mean_square: float = _knob(0.0, at_least=0)
  share_memory: bool = _knob(True)
