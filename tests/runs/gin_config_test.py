"""Tests of .gin files as configs and back, and of errors in one line."""

import re
import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.cli import evaluate
from impala_tf.cli import train
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runtime import user_modules
from tests.fixtures import configs

_HEADER = ('from __gin__ import dynamic_registration\n'
           'from impala_tf import config\n')


def _load(tmp_path, text, bindings=()):
  path = tmp_path / 'my.gin'
  path.write_text(text)
  return gin_config.load(str(path), bindings)


@pytest.mark.parametrize('config', [
    config_lib.Config(), configs.changed_everywhere(),
    config_lib.Config(impala=config_lib.ImpalaConfig(clip_rho_threshold=None))])
def test_what_is_written_reads_back_equal(tmp_path, config):
  assert _load(tmp_path, gin_config.dumps(config)) == config


def test_file_may_include_others_and_bindings_have_the_last_word(
    tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)  # Includes are found from anywhere.
  text = (_HEADER + "include 'configs/catch.gin'\n"
          'config.LearnerConfig.batch_size = 7\n'
          'config.LearnerConfig.unroll_length = 7\n')
  config = _load(tmp_path, text, ['LearnerConfig.unroll_length = 8',
                                  'config.ActorConfig.num_envs=9',
                                  ' ExperimentConfig.seed = 1_0'])
  assert config.environment.level == 'catch'
  assert config.learner.batch_size == 7 and config.learner.unroll_length == 8
  assert config.actor.num_envs == 9 and config.experiment.seed == 10
  assert gin_config.load('configs/catch.gin').learner.batch_size == 32
  (tmp_path / 'my.gin').write_text(text, 'utf-8-sig')  # As Windows may.
  assert gin_config.load(str(tmp_path / 'my.gin')).learner.batch_size == 7


@pytest.mark.parametrize('line, words', [
    ('LearnrConfig.batch_size = 8',
     'no section LearnrConfig; did you mean LearnerConfig.batch_size?'),
    ('LearnerConfig.batchsize = 8',
     'LearnerConfig has no batchsize; did you mean LearnerConfig.batch_size?'),
    ('LearnerConfig:\n  batchsize = 8', 'mean LearnerConfig.batch_size?'),
    # It exists, but elsewhere.
    ('LearnerConfig.num_envs = 8',
     'LearnerConfig has no num_envs; did you mean ActorConfig.num_envs?'),
    # The nearest section's, though others have it too.
    ('AtrConfig.height = 8',
     'there is no section AtrConfig; did you mean AtariConfig.height?'),
    ('learner.BATCH_SIZE = 8',
     'there is no section learner; did you mean LearnerConfig.batch_size?'),
    ('height = 8', 'height needs its section; write AtariConfig.height or '
     'DmlabConfig.height'),
    ('VizdoomConfig.xyz = 8', 'VizdoomConfig has no xyz; it has '),
    ('LearnerConfig = 8', 'is a section; bind its options, such as Learner'),
    ('tasks = 8', 'there is no tasks; sections are ExperimentConfig, '),
    ('leaning_rate = 8', 'did you mean OptimizerConfig.learning_rate?'),
    ('Qqqq.xyz = 8', 'there is no section Qqqq; sections are Experiment'),
    ('AgentConfig.use_lstm = NULL', 'NULL is no value; text stands in quotes, '
     "such as 'catch', which a shell needs in other quotes; other words are"),
    ('LearnerConfig.batch_size = ', 'Unable to parse value'),
    ('LearnerConfig.batch_size', 'expected'),
    ('LearnerConfig.batch_size = [1', 'cannot read'),
    ('AgentConfig.torso = shallow', 'shallow is no value; text stands in'),
    ('LearnerConfig.batch_size = 8.0', 'type int, but is 8.0 (float); write 8'),
    ("EnvironmentConfig.kwargs = {1: 2}", 'must have strings as its keys'),
    # These values would have no effect.
    ('actor/LearnerConfig.batch_size = 8', 'actor/LearnerConfig has a scope'),
    ('Config.learner = 3', 'there is no section Config'),
    ('UserError.args = 3', 'there is no section UserError')])
@pytest.mark.parametrize('where', ['file', 'binding'])
def test_wrong_line_is_refused_in_one(tmp_path, line, words, where):
  with pytest.raises(config_lib.ConfigError) as raised:
    if where == 'file':
      _load(tmp_path, f'{_HEADER}{line}\n')
    else:
      _load(tmp_path, _HEADER, [line])
  message = str(raised.value)
  assert words in message
  assert re.split('[.:]', line)[0] in message or 'my.gin' in message


def test_file_that_includes_itself_is_refused_in_one_short_line(tmp_path):
  (tmp_path / 'other.gin').write_text(f"include '{tmp_path / 'my.gin'}'\n")
  for included in ('my.gin', 'other.gin'):
    with pytest.raises(config_lib.ConfigError) as raised:
      _load(tmp_path, f"{_HEADER}include '{tmp_path / included}'\n")
    assert 'my.gin includes itself, perhaps by way of' in str(raised.value)
    assert len(str(raised.value)) < 200 + len(str(tmp_path))


def test_value_that_refers_to_itself_is_refused(tmp_path):
  with pytest.raises(config_lib.ConfigError, match='%NAME refers to itself'):
    _load(tmp_path, f'{_HEADER}a = %b\nb = %a\n'
          'config.AgentConfig.hidden_size = %a\n')


@pytest.mark.parametrize('keep', [0, 0.2, 0.999])
def test_config_that_lost_its_end_is_refused(refused, tmp_path, keep):
  words = 'config.gin is empty or cut off; restore a copy'
  whole = gin_config.dumps(config_lib.Config())
  text = whole[:int(keep * len(whole))]
  (tmp_path / 'config.gin').write_text(text)
  resumed = refused(train.main, f'--run_dir={tmp_path}')
  assert words in refused(evaluate.main, tmp_path) and words in resumed
  assert (tmp_path / 'config.gin').read_text() == text


def test_config_of_earlier_versions_has_no_mark_at_its_end(tmp_path):
  old = ''.join(line for line in gin_config.dumps(
      configs.changed_everywhere()).splitlines(True) if line[0] != '#')
  assert _load(tmp_path, old) == configs.changed_everywhere()


def test_unreadable_file_is_named_in_one_line(tmp_path):
  for path in ('configs/nope.gin', str(tmp_path)):
    with pytest.raises(config_lib.ConfigError, match=f'no file {path};'):
      gin_config.load(path)
  with pytest.raises(config_lib.ConfigError, match='nope.gin'):
    _load(tmp_path, _HEADER + "include 'configs/nope.gin'\n")

  (tmp_path / 'my.gin').write_bytes(b'\x80\x00\xff' * 9)
  with pytest.raises(config_lib.ConfigError, match='my.gin'):
    gin_config.load(str(tmp_path / 'my.gin'))


def test_differences_name_each_value_that_differs():
  old = config_lib.Config()
  assert gin_config.differences(old, config_lib.Config()) == []
  new = config_lib.Config(
      learner=config_lib.LearnerConfig(batch_size=5),
      environment=config_lib.EnvironmentConfig(kwargs={'x': True}))
  old = old.replaced('environment', kwargs={'x': 1})  # Equal, but for its type.
  assert gin_config.differences(old, new) == [
      "EnvironmentConfig.kwargs ({'x': 1}, now {'x': True})",
      'LearnerConfig.batch_size (32, now 5)']
  old = config_lib.Config()
  everything = gin_config.differences(old, configs.changed_everywhere())
  assert len(everything) == gin_config.dumps(old).count(' = ') - len(
      configs.LEFT_ALONE)


# Files of strangers.


@pytest.mark.parametrize('line, words', [
    ('import a_trap', 'imports a_trap, but a .gin file binds data and may '
     'import impala_tf.config and impala_tf.sweeps only'),
    ('from a_package import part as config', 'imports a_package.part'),
    ('from impala_tf.core import experiment', 'imports impala_tf.core.exp'),
    ('LearnerConfig.batch_size = @dataclasses.inspect.os.abort()',
     'refers to code (@dataclasses.inspect.os.abort)'),
    ("AgentConfig.torso = ['shallow', {'a': (@config.ConfigError(),)}]",
     'refers to code (@config.ConfigError)'),
    ('LearnerConfig.batch_size = @s/config.dataclasses.sys.exit',
     'refers to code (@s/config.dataclasses.sys.exit)'),
    ('config.dataclasses.inspect.os.system:\n  command = "true"',
     'binds config.dataclasses.inspect.os.system, which is no section'),
    ('dataclasses.inspect.os.system.command = "true"',
     'binds dataclasses.inspect.os.system, which is no section')])
@pytest.mark.parametrize('where', ['file', 'include', 'binding'])
def test_nothing_is_imported_called_or_looked_up(tmp_path, line, words, where):
  text, bindings = f'{_HEADER}{line}\n', ()
  if where == 'include':
    (tmp_path / 'other.gin').write_text(text)
    text = f"{_HEADER}include 'other.gin'\n"
  elif where == 'binding':  # As a sweep's file may have them.
    text, bindings = _HEADER, [f'LearnerConfig.batch_size = 8\n{line}']
  with pytest.raises(config_lib.ConfigError, match=re.escape(words)):
    _load(tmp_path, text, bindings)


@pytest.mark.usefixtures('modules_forgotten')
@pytest.mark.parametrize('line', [
    "EnvironmentConfig.level = 'gym/a_trap:Foo-v0'",
    "AgentConfig.torso = 'a_trap'", "ExperimentConfig.algorithm = 'a_trap'",
    "EnvironmentConfig.level = 'a_trap/1'"])
def test_what_a_file_names_is_not_imported_for_it(tmp_path, monkeypatch, line):
  (tmp_path / 'a_trap.py').touch()
  monkeypatch.syspath_prepend(tmp_path)
  config = _load(tmp_path, f'{_HEADER}config.{line}\n')
  with pytest.raises(config_lib.ConfigError, match='a_trap'):
    beginning.check_names(config)
  assert 'a_trap' not in sys.modules and not user_modules.sources()


def test_names_for_values_may_be_used_before_they_are_bound(tmp_path):
  text = ("EnvironmentConfig.kwargs = {%KEY: [%SIZE, 'b']}\nKEY = 'a'\n"
          'impala_tf.config.LearnerConfig.batch_size = %SIZE\nSIZE = 7\n'
          'LearnerConfig.unroll_length = %unroll_length\nunroll_length = 5\n'
          'BATCH = 8\nTASK = 3\n')  # Constants may be unused.
  for bindings, size in ((), 7), (['SIZE = 9'], 9):
    config = _load(tmp_path, text, [
        *bindings, 'LearnerConfig.unroll_length = 6'])
    assert config.learner.batch_size == size
    assert config.learner.unroll_length == 6  # Its name is unused, but named.
    assert config.environment.kwargs == {'a': [size, 'b']}
  with pytest.raises(config_lib.ConfigError, match='stands for a list where'):
    _load(tmp_path, 'EnvironmentConfig.kwargs = {%A: 1}\nA = [1]\n')
  lists = ''.join(f'A{i} = [%A{i + 1}, %A{i + 1}]\n' for i in range(40))
  with pytest.raises(config_lib.ConfigError, match='too many values'):
    _load(tmp_path, lists + "A40 = 1\nEnvironmentConfig.kwargs = {'a': %A0}\n")
  config = _load(tmp_path, 'LearnerConfig.batch_size = %B\n', ['B = 3'])
  assert config.learner.batch_size == 3
  with pytest.raises(config_lib.ConfigError, match='did you mean %SIZE'):
    _load(tmp_path, 'LearnerConfig.batch_size = %SIZES\nSIZE = 7\n')


def test_included_file_is_sought_beside_the_including_one(
    tmp_path, monkeypatch):
  def write(name, text):
    (tmp_path / name).write_text(_HEADER + text)

  (tmp_path / 'deep').mkdir()
  write('base.gin', 'include "deep/more.gin"\n'
        "include 'last.gin'  # As before, but beside this one.\n")
  write('last.gin', 'config.LearnerConfig.batch_size = 5\n')
  write('deep/more.gin', "include 'last.gin'\ninclude '../up.gin'\n"
        "include 'configs/catch.gin'\n")
  write('deep/last.gin', 'config.LearnerConfig.unroll_length = 7\n')
  write('up.gin', 'config.ActorConfig.num_envs = 9\n')
  elsewhere = tmp_path / 'elsewhere'
  elsewhere.mkdir()
  monkeypatch.chdir(elsewhere)
  catch = gin_config.load('catch')
  (elsewhere / 'configs').mkdir()
  (elsewhere / 'configs/impala.gin').write_text('LearnerConfig.x = 1\n')
  assert gin_config.load('catch') == catch  # Its include is shipped, too.
  # The neighbour comes first.
  (elsewhere / 'base.gin').write_text(_HEADER)
  config = _load(tmp_path, f"{_HEADER}include 'base.gin'\n")
  assert config.environment.level == 'catch'
  assert config.learner.batch_size == 5
  # The last one wins, as ever: Catch's file is after both.
  assert config.learner.unroll_length == catch.learner.unroll_length
  assert config.actor.num_envs == catch.actor.num_envs
  write('deep/more.gin', "include 'configs/catch.gin'\ninclude 'last.gin'\n"
        "include '../up.gin'\n")
  config = _load(tmp_path, f"{_HEADER}include 'base.gin'\n")
  assert (config.learner.unroll_length, config.actor.num_envs) == (7, 9)
