"""Evaluations as a user calls them, of runs with few parameters."""

import json
import os
import re
import sys
from unittest import mock

import imageio
import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.cli import evaluate
from impala_tf.envs import atari
from impala_tf.envs import environment
from impala_tf.envs import multi_level
from impala_tf.plots import suite_results
from impala_tf.roles import evaluation
from impala_tf.roles import scores
from impala_tf.runs import gin_config
from impala_tf.runs import recorded_results
from impala_tf.runs import video as video_lib
from impala_tf.runtime import user_modules
from tests.fixtures import full_disk
from tests.fixtures import programs
from tests.fixtures import reports
from tests.fixtures import trained_runs

_LIMIT = 'ExperimentConfig.evaluation_max_frames = 4'


@pytest.fixture(name='catch_run')
def _catch_run(tmp_path):
  return trained_runs.make(tmp_path, 'catch')


@pytest.fixture(name='play')
def _play(call):
  """Evaluates a run; returns the exit code."""
  return lambda *arguments: call(evaluate.main, *arguments)


def _pictures(video):
  # `list` would ask for their number, which is infinite before they are read.
  return [picture for picture in imageio.v2.get_reader(video)]


@pytest.mark.parametrize('flags, seen', [([], ''), (['--gpu'], '3')])
def test_agent_plays_on_the_cpu_unless_a_gpu_is_asked_for(
    catch_run, play, monkeypatch, flags, seen):
  monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '3')
  assert play(catch_run, '--episodes=1', *flags) == 0
  assert os.environ['CUDA_VISIBLE_DEVICES'] == seen


def test_score_is_recorded_and_no_file_moves_with_the_simulators_directory(
    catch_run, tmp_path, play, monkeypatch):
  make = multi_level.make_environment

  def make_elsewhere(*arguments, **options):
    os.chdir('/')
    return make(*arguments, **options)

  monkeypatch.setattr(multi_level, 'make_environment', make_elsewhere)
  names = ['out/result.json', 'table.csv', 'game.gif']
  monkeypatch.chdir(tmp_path)
  assert play(os.path.relpath(catch_run), '--episodes=1', *(
      f'--{flag}={name}' for flag, name in zip(
          ('output', 'record', 'video'), names))) == 0
  assert (tmp_path / names[2]).exists()
  monkeypatch.chdir(tmp_path)
  assert recorded_results.read(names[1]) == [recorded_results.of_evaluation(
      str(catch_run), json.loads((tmp_path / names[0]).read_text()))]


def test_environments_that_are_made_slowly_are_counted(
    catch_run, play, monkeypatch, capsys):
  make, said = multi_level.make_environment, []

  def make_slowly(*arguments, **options):
    programs.wait_until(
        lambda: said.append(capsys.readouterr().out) or any(said), 'the line')
    return make(*arguments, **options)

  monkeypatch.setattr(scores, 'SLOW_SECS', 0.1)
  monkeypatch.setattr(multi_level, 'make_environment', make_slowly)
  assert play(catch_run, '--episodes=3', '--num_envs=2') == 0
  assert ''.join(said).startswith(
      'making 2 environments of catch (--num_envs for fewer)')


def test_result_is_written_and_shown_and_the_first_game_filmed(
    catch_run, tmp_path, play, capsys):
  video = tmp_path / 'out.mp4'
  assert play(catch_run, '--episodes=40', f'--video={video}') == 0
  report = json.loads((catch_run / 'evaluation.json').read_text())
  returns = report['returns']
  assert len(returns) == report['episodes'] == 40
  assert set(returns) == {-1., 1.}
  assert report['mean'] == pytest.approx(np.mean(returns))
  assert report['median'] == np.median(returns)
  assert report['standard_error'] == pytest.approx(
      np.std(returns, ddof=1) / np.sqrt(40))
  assert report['mean_episode_frames'] == 9
  assert report['level'] == 'catch' and report['trained_frames'] == 4321
  assert 'human_normalised_score' not in report
  output = capsys.readouterr().out
  assert re.search(rf'^mean +{report["mean"]}$', output, re.MULTILINE)
  assert f'written_to              {catch_run / "evaluation.json"}' in output

  pictures = _pictures(video)
  # The video has the nine boards until the last action, and the end.
  assert len(pictures) == 10
  boards = [p[20::40, 20::40, 0] for p in pictures]  # A square's middle.
  assert boards[0].shape == (10, 5)
  brightest = [np.unravel_index(np.argmax(b[:8]), b[:8].shape)[0]
               for b in boards[:6]]
  assert brightest == sorted(brightest) and len(set(brightest)) > 3  # It falls.


@pytest.fixture(name='interrupts')
def _interrupts(monkeypatch):
  """Ctrl-C after the step in which the first games of a level end."""
  play = evaluation.evaluate

  def interrupted(agent, environment, num_episodes, seed, on_step, *others):
    def interrupt(num_ended):
      on_step(num_ended)
      if num_ended:
        raise KeyboardInterrupt

    return play(agent, environment, num_episodes, seed, interrupt, *others)

  monkeypatch.setattr(evaluation, 'evaluate', interrupted)


def test_ctrl_c_keeps_the_games_that_are_over_and_the_film(
    catch_run, tmp_path, play, interrupts):
  video, table = tmp_path / 'out.mp4', tmp_path / 'results.csv'
  assert play(catch_run, '--episodes=64', f'--video={video}',
              '--video_secs=1', f'--record={table}') == 130
  report = json.loads((catch_run / 'evaluation.json').read_text())
  assert len(report['returns']) == report['episodes'] == 32
  assert report['interrupted'] is True
  assert len(_pictures(video)) == 5 and not table.exists()


def test_film_for_which_the_disk_is_full_costs_no_score(
    catch_run, tmp_path, play, monkeypatch, capsys):
  monkeypatch.setattr(video_lib.Video, 'close', mock.Mock(
      side_effect=OSError('no room')))
  assert play(catch_run, '--episodes=2', f'--video={tmp_path / "x.mp4"}') == 1
  assert capsys.readouterr().err.endswith('error: no room\n')
  report = json.loads((catch_run / 'evaluation.json').read_text())
  assert report['episodes'] == 2


def test_ctrl_c_leaves_a_complete_result_as_it_was(
    catch_run, play, interrupts, capsys):
  path = catch_run / 'evaluation.json'
  path.write_text('complete')
  assert play(catch_run, '--episodes=64') == 130
  assert path.read_text() == 'complete'
  assert f'{path} is left as it was' in capsys.readouterr().out


def test_level_of_a_suite_that_was_interrupted_is_played_again(
    tmp_path, play, interrupts):
  run_dir = _make_pong_run(tmp_path)
  assert play(
      run_dir, '--suite=atari57', '--levels=atari/pong', '--episodes=2',
      '--gin_binding=ExperimentConfig.evaluation_max_frames = 8') == 130
  assert not (run_dir / 'evaluation_atari57_varied.json').exists()


def test_game_is_cut_off_at_the_limit_that_a_binding_sets(
    catch_run, play, capsys):
  assert play(catch_run, '--episodes=5', '--num_envs=3',
              f'--gin_binding={_LIMIT}') == 0
  report = json.loads((catch_run / 'evaluation_varied.json').read_text())
  assert report['returns'] == [0., 0., 0.] and report['episodes_cut'] == 3
  assert report['gin_binding'] == [_LIMIT] and report['episodes_left'] == 2
  assert '3 games were cut off after 4 frames' in capsys.readouterr().out


def test_score_is_shown_though_it_cannot_be_kept(catch_run, play, capsys):
  with full_disk.largest_file(100), pytest.raises(OSError):
    play(catch_run, '--episodes=8')
  assert re.search(r'catch -?[01]\.\d\d\n', capsys.readouterr().out)


@pytest.mark.usefixtures('modules_forgotten')
def test_numbers_of_episodes_are_in_the_result_and_the_score(tmp_path, play):
  user_modules.load([reports.MODULE])
  run = trained_runs.make(tmp_path, reports.LEVELS[0])
  assert play(
      run, '--episodes=8', f'--import={reports.MODULE}',
      "--gin_binding=EnvironmentConfig.episode_metrics = 'score,won,no'") == 0
  report = json.loads((run / 'evaluation_varied.json').read_text())
  # Each of eight copies has played its first game.
  assert report['episode/score'] == 0. and report['episode/won'] == 1.
  assert report['mean'] == 3. and 'episode/no' not in report


def test_levels_that_are_no_suite_are_played_in_turn(
    tmp_path, play, capsys, request):
  run_dir = trained_runs.make(tmp_path, 'catch,catch/mirrored')
  assert play(run_dir, '--episodes=40') == 0
  path = run_dir / 'evaluation.json'
  played = json.loads(path.read_text())['levels']
  assert list(played) == ['catch', 'catch/mirrored']
  # One and the same agent, on levels whose rewards differ a hundredfold.
  assert set(played['catch']['returns']) == {-1., 1.}
  assert set(played['catch/mirrored']['returns']) == {-100., 100.}
  output = capsys.readouterr().out
  for i, (level, result) in enumerate(played.items(), start=1):
    assert result['level'] == level and result['episodes'] == 40
    assert f'{i} of 2: {level} {result["mean"]:.2f}\n' in output
  assert suite_results.read_levels(str(path)) == played
  before = path.read_text()
  request.getfixturevalue('interrupts')
  assert play(run_dir, '--episodes=64') == 130
  assert path.read_text() == before
  del played['catch']
  path.write_text(json.dumps({'levels': played}))
  assert play(run_dir, '--episodes=64') == 130
  interrupted = json.loads(path.read_text())['levels'].pop('catch')
  assert interrupted['interrupted'] and interrupted['episodes'] == 32
  assert suite_results.read_levels(str(path)).keys() == {'catch', *played}
  # So it is with another config.
  result = {**played['catch/mirrored'], 'gin_binding': [_LIMIT]}
  varied = run_dir / 'evaluation_varied.json'
  varied.write_text(json.dumps(
      {'levels': {'catch': result, 'catch/mirrored': result}}))
  assert play(run_dir, '--episodes=64', f'--gin_binding={_LIMIT}') == 130
  assert set(suite_results.read_levels(str(varied), [_LIMIT])) == {
      'catch', 'catch/mirrored'}

  assert play(run_dir, '--video=x.mp4') == 2
  assert 'would be catch and 1 more; name one' in capsys.readouterr().err


def test_checkpoint_and_kind_of_actions_are_as_flags_say(catch_run, play):
  def report(*arguments):
    assert play(catch_run, '--episodes=30', *arguments) == 0
    return json.loads((catch_run / 'evaluation.json').read_text())

  sampled = report('--checkpoint=7')
  assert sampled['checkpoint'] == 'ckpt-7' and not sampled['deterministic']
  same = report('--deterministic')
  assert same['deterministic']
  # A game is decided by the ball's column at its start, and the policy hardly
  # looks at anything: it is always the same columns that are caught.
  assert same['returns'] != sampled['returns']
  assert report('--deterministic', '--checkpoint=newest') == same


def _make_pong_run(run_dir, **atari):
  # Games are cut off before a point is lost.
  return trained_runs.make(
      run_dir, 'atari/pong',
      atari=config_lib.AtariConfig(max_episode_frames=40, **atari),
      agent=config_lib.AgentConfig(hidden_size=4))


def test_suite_is_played_level_by_level_and_goes_on_from_its_stop(
    tmp_path, play, capsys):
  run_dir = _make_pong_run(tmp_path, full_action_set=True)
  path = run_dir / 'evaluation_atari57.json'

  def evaluate_suite(*arguments):
    assert play(run_dir, '--suite=atari57', '--episodes=1', *arguments) == 0
    output = capsys.readouterr().out
    played = re.findall(r'^\d of \d: (\S+)', output, re.MULTILINE)
    return played, json.loads(path.read_text()), output

  played, report, _ = evaluate_suite('--levels=atari/pong')
  assert played == ['atari/pong']
  pong = report['levels']['atari/pong']
  assert len(pong['returns']) == pong['episodes'] == 1
  assert pong['trained_frames'] == report['trained_frames'] == 4321
  # As if it had been lost by 0 to 0: random has -20.7 and the human 14.6.
  assert pong['human_normalised_score'] == pytest.approx(20.7 / 35.3)

  both = '--levels=atari/pong,atari/breakout'
  played, report, output = evaluate_suite(both)
  assert played == ['atari/breakout']
  assert report['levels']['atari/pong'] == pong
  assert report['levels_counted'] == len(report['levels']) == 2
  assert 'human_normalised_median' not in report  # Of 57 levels or none.
  table_path = run_dir / 'evaluation_atari57.md'
  assert re.search(rf'^table +{table_path}$', output, re.MULTILINE)
  table = table_path.read_text()
  assert ('| pong | 0.00 | 14.60 | -20.70 | 20.90 | 20.70 | 8.58 | 20.40 '
          '| 20.98 | 58.6% |') in table
  assert 'Levels of Atari-57: 2 of 57 scored.' in table

  table_path = tmp_path / 'results.csv'
  assert evaluate_suite(both, f'--record={table_path}')[0] == []
  assert len(recorded_results.read(str(table_path))) == 2
  # By another seed or config, also in one file.
  for flags in ([], ['--gin_binding=AtariConfig.noop_max = 0'], []):
    played, _, _ = evaluate_suite(both, '--seed=1', f'--output={path}', *flags)
    assert played == ['atari/pong', 'atari/breakout']
    assert len(suite_results.read_levels(str(path))) == (0 if flags else 2)


def test_level_that_ends_the_process_is_named_and_a_result_is_kept(
    tmp_path, monkeypatch, play, capsys):
  run_dir = _make_pong_run(tmp_path)
  arguments = (run_dir, '--suite=atari57', '--levels=atari/pong',
               '--episodes=2')

  def fail(*unused):
    raise environment.SimulatorError('atari/pong: it crashed')

  with monkeypatch.context() as patch:
    patch.setattr(atari.AtariEnvironment, 'step', fail)
    assert play(*arguments) == 1
  printed = capsys.readouterr()
  assert '1 of 1: atari/pong ' in printed.out
  assert printed.err.splitlines()[-1] == 'error: atari/pong: it crashed'

  def end(self):
    if self.num_envs > 1:  # Not the one that is only looked at before.
      raise SystemExit(1)

  monkeypatch.setattr(atari.AtariEnvironment, 'close', end)
  with pytest.raises(SystemExit):
    play(*arguments)
  assert play(*arguments) == 0
  report = json.loads((run_dir / 'evaluation_atari57.json').read_text())
  assert len(report['levels']['atari/pong']['returns']) == 2


def test_run_of_several_levels_is_played_on_these_or_on_its_suite(
    tmp_path, play):
  # The agent knows one game; agents of the full action set know all.
  run_dir = _make_pong_run(tmp_path, full_action_set=True)
  path = run_dir / 'config.gin'
  path.write_text(gin_config.dumps(gin_config.load(str(path)).replaced(
      'environment', level='atari/skiing,atari/breakout')))

  def played(*arguments):
    assert play(run_dir, '--episodes=1', *arguments) == 0
    return json.loads(
        (run_dir / 'evaluation_atari57.json').read_text())['levels']

  own = played()
  assert list(own) == ['atari/skiing', 'atari/breakout']
  more = played('--suite=atari57', '--levels=atari/skiing,atari/pong')
  assert more.keys() == {*own, 'atari/pong'}
  assert more['atari/skiing'] == own['atari/skiing']


def test_agent_of_other_actions_is_refused_before_anything_is_played(
    tmp_path, refused):
  run_dir = _make_pong_run(tmp_path)
  line = refused(evaluate.main, run_dir, '--suite=atari57', '--episodes=1',
                 '--levels=atari/pong,atari/breakout')
  assert ('atari/breakout has 4 actions, but the agent was trained with 6 '
          'actions; for an agent that plays every game, train with '
          'AtariConfig.full_action_set = True') in line
  assert not list(run_dir.glob('evaluation*'))


def test_continuous_actions_are_played_and_filmed(tmp_path, play):
  run_dir = trained_runs.make(tmp_path, 'gym/InvertedPendulum-v5')
  video = tmp_path / 'out.mp4'
  assert play(run_dir, '--episodes=3', f'--video={video}') == 0
  report = json.loads((run_dir / 'evaluation.json').read_text())
  # A step upright is worth 1; the last, which falls, nothing.
  assert report['mean'] == pytest.approx(report['mean_episode_frames'] - 1)
  assert 2 < report['mean'] < 100  # Its policy is noise.
  pictures = _pictures(video)
  assert 2 < len(pictures) < 100 and pictures[0].std() > 0


@pytest.mark.parametrize('level, suite, words', [
    ('catch', 'atari57', "was trained on 'catch', whose observations are not "
     'those of Atari-57'),
    ('dmlab30', None, 'needs the package deepmind_lab; docs/dmlab.md'),
    ('dmlab30/rooms_watermaze', 'dmlab30', 'needs the package deepmind_lab')])
def test_suite_that_cannot_be_played_is_refused_in_one_line(
    tmp_path, monkeypatch, refused, level, suite, words):
  monkeypatch.setitem(sys.modules, 'deepmind_lab', None)  # Nor installed.
  (tmp_path / 'config.gin').write_text(gin_config.dumps(config_lib.Config(
      environment=config_lib.EnvironmentConfig(level=level))))
  flags = [f'--suite={suite}'] if suite else []
  assert words in refused(evaluate.main, tmp_path, *flags)


@pytest.mark.parametrize('arguments, words', [
    (['--suite=atari'], 'there is no atari; did you mean atari57?'),
    (['--levels=atari/pong'], '--levels are of a suite; give --suite too'),
    (['--suite=atari57', '--levels=atari/pong,pongg'],
     "'pongg' is no level of Atari-57; did you mean atari/pong?"),
    (['--suite=atari57', '--video=x.mp4'], '--video films one level'),
    (['--suite=atari57', '--output={run}/x.md'], 'choose another ending'),
    (['--output=/proc/no/x.json'], '(No such file or directory); choose'),
    (['--record={run}'], '(not a regular file); choose another --record'),
    (['--record', '--gin_binding=AgentConfig.hidden_size = 4'],
     "--record is for scores of the run's own config; leave out --gin_binding"),
    (['--video={run}/x.txt'], 'is one of .gif, .mkv, .mov, .mp4, but is'),
    (['--video=gs://b/x.gif'], '--video must be a path, no URL'),
    (['--video={run}/x.gif', '--video_secs=0'], 'must be above 0, but is 0'),
    (['--video_secs=1'], '--video_secs is for --video; leave it out'),
    (['--video={run}/config.gin/x.mp4'], '; choose another --video')])
def test_bad_flag_is_refused_in_one_line(tmp_path, refused, arguments, words):
  (tmp_path / 'config.gin').write_text(gin_config.dumps(config_lib.Config()))
  arguments = [a.format(run=tmp_path) for a in arguments]
  assert words in refused(evaluate.main, tmp_path, *arguments)
  assert [p.name for p in tmp_path.iterdir()] == ['config.gin']
