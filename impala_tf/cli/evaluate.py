"""Plays full games with a run's newest parameters, and scores them.

Games start with up to 30 no-op actions (section 5.3.2 of the paper). They last
at most 30 minutes, and actions are sampled, of which the paper says nothing.
Rewards are raw, and memory is carried through.
"""

import argparse
import difflib
import os
from typing import Any, Callable, Sequence

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.envs import factory
from impala_tf.plots import suite_results
from impala_tf.roles import scores
from impala_tf.runs import gin_config
from impala_tf.runs import recorded_results
from impala_tf.runs import run_directory
from impala_tf.runs import video as video_lib
from impala_tf.runtime import gpus
from impala_tf.runtime import stop_signals
from impala_tf.runtime import user_modules
from impala_tf.storage import files
from impala_tf.storage import shipped
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib


def _parse_args() -> argparse.Namespace:
  parser = command_line.Parser(description=__doc__)
  parser.add_argument('run_dir', help="a run's directory, or the name of a "
                      'shipped agent, such as pong')
  program.add_import(parser)
  command_line.add_gin_binding(
      parser, "changes one value of the run's config, such as the level's "
      'arguments, to play what the agent was not trained on',
      "EnvironmentConfig.kwargs = {'size': 7}")
  parser.add_argument('--episodes', type=int,
                      help='full games to play on a level (default: as the '
                      'paper, 500 on DMLab-30 and 200 elsewhere)')
  parser.add_argument('--num_envs', type=int, default=scores.MAX_ENVS,
                      help='games at once, each in a copy of the environment '
                      '(default: %(default)s)')
  parser.add_argument('--seed', type=int, default=0,
                      help='seed of games and actions (default: %(default)s)')
  program.add_checkpoint(parser)
  parser.add_argument('--deterministic', action='store_true',
                      help='take the most probable actions instead of sampling '
                      'them')
  parser.add_argument('--gpu', action='store_true',
                      help='play on a GPU; by default it is left to learners')
  parser.add_argument('--output', help='where to write the result as JSON '
                      '(default: RUN_DIR/evaluation.json; its name ends in '
                      '_varied for a --gin_binding, in _SUITE for a suite; of '
                      'a shipped agent pong_evaluation.json)')
  parser.add_argument('--record', nargs='?', metavar='RESULTS.csv',
                      const=recorded_results.DEFAULT_PATH,
                      help='add the score to a table, with the command, code, '
                      'machine and config of the run (default: %(const)s)')
  parser.add_argument('--video', metavar='OUT.mp4',
                      help='film the first game; the ending is one of '
                      f'{", ".join(video_lib.FORMATS)}')
  parser.add_argument('--video_secs', type=float, metavar='SECS',
                      help='end the video after so many seconds of play '
                      '(default: with the game, but a GIF after 20)')
  parser.add_argument('--suite', choices=levels_lib.SUITES,
                      help='play every level of a suite, and write a table '
                      'beside the JSON; the same command goes on where it was '
                      'stopped (default: what the run was trained on)')
  parser.add_argument('--levels', help='play only these of --suite: '
                      'atari/pong,atari/breakout')
  return parser.parse_args()


@program.returning_exit_code
@stop_signals.interrupting()
def main() -> None:
  """Plays games according to the flags, and prints a report."""
  args = _parse_args()
  if not args.gpu:
    gpus.hide()
  run_directory.reach(args.run_dir)
  config_path = scores.check(
      args.run_dir, args.episodes, args.seed, args.num_envs)
  which = program.parse_checkpoint(args.checkpoint)
  user_modules.load(args.modules)
  config = gin_config.load(config_path, args.gin_binding)
  trained_on = config.environment.level
  suite, levels = _suite_and_levels(args, trained_on)
  output = _output(args, suite)
  record = _recorder(args)
  if suite:
    _check_suite(args.run_dir, trained_on, suite)
  from impala_tf.agents import saved  # Imports TensorFlow, which takes seconds.
  loaded = saved.load_agent(args.run_dir, which)
  games = scores.Games(args.episodes, args.seed, args.deterministic, args.video,
                       args.video_secs, args.num_envs, args.gin_binding)
  if suite:
    report = _evaluate_suite(games, config, suite, levels, loaded, output,
                             record)
  else:
    report = _evaluate_levels(games, config, levels, loaded, output, record)
  if args.video:
    report['video'] = args.video
  width = max(23, *map(len, report)) + 1
  for name, value in report.items():
    print(f'{name:{width}}'
          f'{round(value, 6) if isinstance(value, float) else value}')


def _suite_and_levels(args: argparse.Namespace, trained_on: str
                      ) -> tuple[suite_lib.Suite | None, Sequence[str]]:
  played = args.suite or trained_on
  if args.video and len(levels_lib.expand(played)) > 1:
    raise config_lib.UserError(
        '--video films one level, but this would be '
        f'{levels_lib.short_name(played)}; name one, without --suite, by '
        '--gin_binding="EnvironmentConfig.level = \'...\'"')
  if args.suite is None:
    if args.levels is not None:
      raise config_lib.UserError('--levels are of a suite; give --suite too')
    return scores.scored_levels(trained_on)
  suite = levels_lib.SUITES[args.suite]
  levels = suite.levels
  if args.levels is not None:
    # Each once, by the name under which it is scored.
    levels = tuple(dict.fromkeys(
        suite.scored_level(level) if level in suite.train_levels else level
        for level in args.levels.split(',')))
  domain = suite.levels[0].partition('/')[0]
  for level in levels:
    if level not in suite.levels:
      near = difflib.get_close_matches(
          f'{domain}/{level.rpartition("/")[2]}', suite.levels, n=1)
      hint = f'did you mean {near[0]}?' if near else (
          f'levels are named like {suite.levels[0]}')
      raise config_lib.UserError(
          f'--levels: {level!r} is no level of {suite.title}; {hint}')
  return suite, levels


def _output(args: argparse.Namespace, suite: suite_lib.Suite | None) -> str:
  output = args.output or scores.result_path(
      args.run_dir, (f'_{suite.name}' if suite else '') +
      ('_varied' if args.gin_binding else ''))
  if suite and os.path.splitext(output)[1] == '.md':
    raise config_lib.UserError(
        f'--output is the JSON, and {output} the table beside it; choose '
        'another ending')
  if args.video:
    args.video = video_lib.check_path(args.video)
  config_lib.check_range('--video_secs', args.video_secs, above=0)
  if args.video_secs is not None and not args.video:
    raise config_lib.UserError('--video_secs is for --video; leave it out')
  return files.check_writable(output, '--output')


def _recorder(args: argparse.Namespace) -> Callable[[dict], None]:
  """Returns a function that adds a result to --record; raises UserError."""
  if args.record is None:
    return lambda result: None
  if args.gin_binding:
    raise config_lib.UserError(
        "--record is for scores of the run's own config; leave out "
        '--gin_binding')
  table = files.check_writable(args.record, '--record')
  recorded_results.read(table)
  run_dir = shipped.find_agent(args.run_dir)
  full_path, curve = files.absolute(run_dir), recorded_results.curve(run_dir)

  def record(result):
    if 'interrupted' not in result:
      recorded_results.add(table, recorded_results.of_evaluation(
          full_path, result)._replace(curve=curve))
  return record


def _evaluate_levels(games: scores.Games, config: config_lib.Config,
                     levels: Sequence[str], loaded: Any, output: str,
                     record: Callable[[dict], None]) -> dict:
  """Plays levels, not as a suite, and writes results; returns the report."""
  results: dict[str, dict] = {}
  if len(levels) > 1 and files.exists(output):
    earlier = suite_results.read_levels(output, games.bindings)
    results = {level: earlier[level] for level in levels if level in earlier}

  def keep(level, result):
    if 'interrupted' in result and (
        level in results or len(levels) == 1 and files.exists(output)):
      print(f'{output} is left as it was')
      return
    results[level] = result
    files.write_json(
        output, result if len(levels) == 1 else {'levels': results})
    record(result)

  scores.play_in_turn(games, config, levels, loaded, keep)
  report = {'trained_frames': loaded.num_frames, 'levels': len(levels)}
  if len(levels) == 1:
    (report,) = results.values()
  return {**{name: value for name, value in report.items()
             if name != 'returns'}, 'written_to': output}


def _check_suite(run_dir: str, trained_on: str, suite: suite_lib.Suite) -> None:
  domain = suite.levels[0].partition('/')[0]
  # Levels that were trained on together are seen alike, but one of another
  # domain may be among them.
  if not any(level.partition('/')[0] == domain
             for level in levels_lib.expand(trained_on)):
    raise config_lib.UserError(
        f'{run_dir} was trained on {levels_lib.short_name(trained_on)!r}, '
        f'whose observations are not those of {suite.title}')
  factory.check_level(suite.levels[0])  # Refuses a missing simulator.


def _evaluate_suite(games: scores.Games, config: config_lib.Config,
                    suite: suite_lib.Suite, levels: Sequence[str], loaded: Any,
                    output: str, record: Callable[[dict], None]) -> dict:
  """Plays the suite's levels that the output file lacks; returns the report."""
  def keep(level, result):
    if 'interrupted' not in result:  # It is played whole by the next command.
      results.add(level, result)
      record(result)

  results = suite_results.SuiteResults(output, suite, {
      'trained_frames': loaded.num_frames,
      'episodes': games.episodes or suite.episodes, 'seed': games.seed,
      'deterministic': games.deterministic, 'gin_binding': games.bindings})
  for level in filter(results.has, levels):
    record(results.counted()[level])
  scores.play_in_turn(
      games, config, [level for level in levels if not results.has(level)],
      loaded, keep)
  results.write()
  return {'suite': suite.title, 'trained_frames': loaded.num_frames,
          'levels': f'{len(results.scores())} of {len(suite.levels)}',
          **results.summary(), 'written_to': output,
          'table': results.table_path}
