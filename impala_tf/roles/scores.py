"""Scores of a run's agent, by full games on its scored levels.

It does not import TensorFlow, so that bad input is refused at once.
"""

import os
import threading
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runs import video as video_lib
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from impala_tf.runtime import wording
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib

SLOW_SECS = 5.  # After which it is said that environments are made.
_EPISODES = 200  # Games on a level of no suite.
MAX_ENVS = 32  # Games at once, by default.
_MAX_SEED = 2**30  # Emulators take an int32, and each has its own.
_SEED_STEP = 1009  # Between seeds; environment i plays with its seed + i.


class Games(NamedTuple):
  """Settings of the games of an evaluation."""
  episodes: int | None  # On each level; None for as many as the paper has.
  seed: int  # Of games and actions.
  deterministic: bool  # Whether the most probable actions are taken.
  video: str | None = None  # Path of a film of the first game.
  video_secs: float | None = None  # Its length; None for the whole game.
  num_envs: int = MAX_ENVS  # Most games at once.
  bindings: Sequence[str] = ()  # Values that differ from the run's config.


class Score(NamedTuple):
  """The score of an agent on one level.

  Attributes:
    returns: sum of raw rewards of each game.
    mean: of the returns.
    standard_error: of the mean; None for a single game.
    human_normalised_score: (mean − random) ÷ (human − random); None if the
      level is of no suite.
    episode_metrics: mean of each of `EnvironmentConfig.episode_metrics`.
  """
  returns: list[float]
  mean: float
  standard_error: float | None
  human_normalised_score: float | None
  episode_metrics: Mapping[str, float]


def evaluate(run_dir: str | os.PathLike[str], episodes: int | None = None, *,
             seed: int = 0, checkpoint: str | int = 'newest',
             deterministic: bool = False, levels: Sequence[str] | None = None,
             num_envs: int = MAX_ENVS) -> dict[str, Score]:
  """Plays full games with a run's agent, as `evaluate` does; writes nothing.

  Args:
    run_dir: directory of the run, which may still train.
    episodes: full games on each level; None for as many as the paper: 500 on
      DMLab-30 and 200 elsewhere.
    seed: seed of games and actions.
    checkpoint: 'newest', 'best', or the number of updates of a checkpoint.
    deterministic: whether to take the most probable actions, not sampled ones.
    levels: names of levels, or one that may be a list or suite; None for the
      run's own, or their held-out variants.
    num_envs: most games at once.

  Returns:
    The score on each level by its name.

  Raises:
    UserError: in one line, if an argument cannot work.
  """
  user_modules.refuse_while_importing('impala_tf.evaluate')
  run_dir = shipped.find_agent(run_dir)
  run_directory.reach(run_dir)
  config = gin_config.load(check(run_dir, episodes, seed, num_envs))
  from impala_tf.agents import saved  # Imports TensorFlow, which takes seconds.
  if levels is None:
    _, levels = scored_levels(config.environment.level)
  elif isinstance(levels, str):
    levels = [levels]
  levels = [one for level in levels for one in levels_lib.expand(level)]
  scores: dict[str, Score] = {}

  def keep(level, result):
    scores[level] = Score(
        result['returns'], result['mean'], result['standard_error'],
        result.get('human_normalised_score'),
        {name[len('episode/'):]: value for name, value in result.items()
         if name.startswith('episode/')})

  play_in_turn(Games(episodes, seed, deterministic, num_envs=num_envs), config,
               levels, saved.load_agent(run_dir, checkpoint), keep)
  return scores


def check(run_dir: str, episodes: int | None = None, seed: int = 0,
          num_envs: int = MAX_ENVS) -> str:
  """Returns the path of a run's config; UserError if an argument is bad."""
  config_path = gin_config.config_path(shipped.find_agent(run_dir))
  if not files.exists(config_path):
    raise config_lib.UserError(
        f'{run_dir} holds no config.gin; is it a run, or a shipped agent?')
  config_lib.check_range('--episodes', episodes, at_least=1)
  config_lib.check_range('--num_envs', num_envs, at_least=1)
  if not 0 <= seed < _MAX_SEED:
    raise config_lib.UserError(
        f'--seed must be 0 to {_MAX_SEED - 1}, but is {seed}')
  return config_path


def result_path(run_dir: str, ending: str) -> str:
  """Returns the path of a result file; a shipped agent's is elsewhere."""
  start = os.path.join(run_dir, '') if files.exists(run_dir) else f'{run_dir}_'
  return f'{start}evaluation{ending}.json'


def scored_levels(trained_on: str
                  ) -> tuple[suite_lib.Suite | None, Sequence[str]]:
  """Returns the common suite of several levels, if any, and levels to score.

  `trained_on` is `EnvironmentConfig.level` of the run.
  """
  trained = levels_lib.expand(trained_on)
  suite = levels_lib.suite_of(trained[0])
  if len(trained) == 1 or suite is None or any(
      levels_lib.suite_of(level) is not suite for level in trained):
    return None, trained
  return suite, tuple(dict.fromkeys(map(suite.scored_level, trained)))


def play_in_turn(games: Games, config: config_lib.Config, levels: Sequence[str],
                 loaded: Any, keep: Callable[[str, dict], None]) -> None:
  """Plays levels with the agent that `saved.load_agent` has loaded.

  `keep` gets the name of each level, as it is scored, and its result. Raises
  UserError if this agent cannot play a level.
  """
  from impala_tf.envs import multi_level

  def make_environment(level, num_envs):
    return multi_level.make_environment(
        config.replaced('environment', level=level), num_envs,
        games.seed * _SEED_STEP % _MAX_SEED, training=False)

  for level in levels[1:]:  # All of them, before an hour of games.
    with stop_signals.Closing(make_environment(level, 1)) as environment:
      _check_fit(environment, loaded)
  for i, level in enumerate(levels, start=1):
    suite = levels_lib.suite_of(level)
    episodes = games.episodes or (suite.episodes if suite else _EPISODES)
    num_envs = min(episodes, games.num_envs)
    slow = threading.Timer(SLOW_SECS, print, [
        f'making {wording.counted(num_envs, "environment")} of {level} '
        '(--num_envs for fewer)'], {'flush': True})
    slow.start()
    try:
      environment = make_environment(level, num_envs)
    finally:
      slow.cancel()
    with stop_signals.Closing(environment):
      _check_fit(environment, loaded)
      # Named before it is played and kept before it is closed: some simulators
      # can end the whole process in either.
      print(f'{i} of {len(levels)}: {level}', end=' ', flush=True)
      result, failure = _play(
          games, loaded, environment, episodes,
          config.experiment.evaluation_max_frames)
      score = result.get('human_normalised_score')
      print(f'{result["mean"]:.2f}' +
            ('' if score is None else f' ({score:.1%} human-normalised)'),
            flush=True)
      keep(result['level'], result)
      if result.get('episodes_cut'):
        print(f'  {result["episodes_cut"]} games were cut off after '
              f'{config.experiment.evaluation_max_frames:,} frames '
              '(ExperimentConfig.evaluation_max_frames)', flush=True)
    if failure is not None:
      raise failure


def _play(games: Games, loaded: Any, environment: Any, episodes: int,
          max_frames: int) -> tuple[dict, BaseException | None]:
  """Plays a level, and films it on request.

  Returns the result and what to raise once it is kept: a film that could not be
  written, or KeyboardInterrupt. After Ctrl-C the result is of the games that
  were over by then, and says so; without any this is raised at once.
  """
  from impala_tf.roles import evaluation
  video, failure = None, None
  if games.video:
    video = video_lib.Video(games.video, environment, games.video_secs)
  try:
    played = evaluation.evaluate(
        loaded.agent, environment, episodes, games.seed,
        video.on_step if video else lambda num_ended: None,
        games.deterministic, max_frames,
        lambda text: print(f'\n  {text}', end=' ', flush=True))
    if video:
      try:
        video.close()
      except OSError as error:
        failure = error
  finally:
    if video:
      video.discard()
  if played.interruption is not None and not played.returns:
    raise played.interruption
  # The environment may play a held-out variant of the configured level.
  level = environment.level
  result = {'level': level, 'trained_frames': loaded.num_frames,
            'checkpoint': loaded.checkpoint, 'seed': games.seed,
            'deterministic': games.deterministic, **played.summary()}
  if played.interruption is None and len(played.returns) < episodes:
    # Their environments were still in games that were cut off.
    result['episodes_left'] = episodes - len(played.returns)
  if environment.instruction_length:
    result['instructions_cut'] = environment.num_instructions_cut
  suite = levels_lib.suite_of(level)
  if suite:
    result['human_normalised_score'] = suite.human_normalised_score(
        level, result['mean'])
  if games.bindings:
    result['gin_binding'] = games.bindings
  if played.interruption is not None:
    result['interrupted'] = True
  return {**result, 'returns': played.returns}, played.interruption or failure


def _check_fit(environment: Any, loaded: Any) -> None:
  """Raises UserError unless an agent's inputs and actions fit an environment.

  An action out of range would hang the emulator.
  """
  from impala_tf.maths import distributions
  agent, of_level = loaded.agent, environment.side_channel_specs()

  def words(actions, spec, num_features, has_mask):
    return (str(actions), f'observations {spec.dtype} {list(spec.shape)}',
            f'{num_features} features', f'{"a" if has_mask else "no"} mask')

  differing = [pair for pair in zip(
      words(distributions.of_actions(environment.action_spec()),
            environment.observation_spec(),
            of_level.features.shape[0] if of_level.features else 0,
            bool(of_level.action_mask)),
      words(agent.distribution, loaded.observation_spec, agent.num_features,
            agent.has_action_mask)) if pair[0] != pair[1]]
  if not differing:
    return
  remedy = 'choose a run that was trained on it'
  if environment.level.startswith('atari/'):
    remedy = ('for an agent that plays every game, train with '
              'AtariConfig.full_action_set = True, or choose games with '
              '--suite and --levels')
  has, had = map(', '.join, zip(*differing))
  raise config_lib.UserError(
      f'{environment.level} has {has}, but the agent was trained with {had}; '
      f'{remedy}')
