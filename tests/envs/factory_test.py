"""Environments from names, and messages for names that cannot be."""

import importlib.util

import dm_env
import numpy as np
import pytest

from impala_tf import config
from impala_tf.envs import catch
from impala_tf.envs import domain as domain_lib
from impala_tf.envs import factory
from impala_tf.envs import multi_level
from impala_tf.runtime import user_modules
from tests.fixtures import programs


def _make(level, training=True, **atari_options):
  return factory.make_environment(
      level, 2, 3, config.Config(atari=config.AtariConfig(**atari_options)),
      training)


def _config(level, instruction_length=0, env_processes=None):
  return config.Config(
      environment=config.EnvironmentConfig(level=level),
      agent=config.AgentConfig(instruction_length=instruction_length),
      actor=config.ActorConfig(env_processes=env_processes))


# `dm_environment_test` has levels of dm_env.
_LEVELS = (
    'catch', 'catch/delayed', 'catch/mirrored', 'cartpole_swingup', 'tmaze/7',
    'minigrid/Empty-5x5-v0', 'babyai/GoToLocal-v0', 'gym/CartPole-v1',
    'control/cartpole/balance', 'atari/pong', 'dmlab30/rooms_watermaze',
    'dmlab/seekavoid_arena_01', 'vizdoom/basic')


def test_each_domain_has_its_forms_and_a_level_above():
  assert {level.partition('/')[0] for level in _LEVELS} == (
      {*factory.DOMAINS} - {'dm_env'})
  for name, domain in factory.DOMAINS.items():
    assert all(form.partition('/')[0] == name for form in domain.forms)


@pytest.mark.parametrize('level', _LEVELS)
@pytest.mark.usefixtures('fake_deepmind_lab')
def test_level_has_its_name_and_size(level):
  factory.check_level(level)
  env = _make(level)
  assert env.num_envs == 2 and env.level == level
  assert env.reset().step_type.tolist() == [dm_env.StepType.FIRST] * 2
  env.close()


@pytest.mark.parametrize('training, option, ends', [
    (True, True, True), (True, False, False), (False, True, False)])
def test_a_lost_life_ends_an_episode_in_training_only(training, option, ends):
  env = _make('atari/breakout', training, life_loss_ends_episode=option)
  env.reset()
  discounts = []
  for _ in range(60):  # The ball is served and missed.
    row = env.step(np.ones(2, np.int32))
    assert (row.step_type == dm_env.StepType.MID).all()
    discounts.append(row.discount)
  assert (np.min(discounts) == 0) == ends


@pytest.mark.parametrize('call', [factory.check_level, _make])
@pytest.mark.parametrize('level, message', [
    ('', 'must be'), ('pong', "mean 'atari/pong'"), ('Catch', "mean 'catch'"),
    ('catch/', 'must be'), ('atari', 'must be'), ('procgen/coinrun', 'must be'),
    ('catch/delayed/5', "mean 'catch/delayed'"), ('tmaze/0', '1 to 1000 cells'),
    ('atari/pnog', 'atari/pnog.*did you mean atari/pong[?]'),
    ('atari/MsPacman-v5', 'did you mean atari/ms_pacman[?]'),
    ('atari/xyzzy', 'atari/xyzzy.*snake case'),
    ('atari/combat', 'no level'),  # For two; the emulator would end us.
    ('dmlab30/watermaze', 'mean dmlab30/rooms_watermaze'),
    ('dmlab/rooms_watermaze', 'no level'),
    ('vizdoom/defend_center', 'mean vizdoom/defend_the_center')])
def test_unknown_level_is_refused(call, level, message):
  with pytest.raises(config.ConfigError, match=message):
    call(level)


@pytest.mark.parametrize('level, meant', [
    ('gym/ALE/Pong-v5', 'atari/pong'), ('Pong-v4', 'atari/pong'),
    ('Pong-ramDeterministic-v4', 'atari/pong'), ('pnog', 'atari/pong'),
    ('atari/UpNDownNoFrameskip-v4', 'atari/up_n_down'),
    ('Blackjack-v1', 'gym/Blackjack-v1'),
    ('MiniGrid-DoorKey-5x5-v0', 'minigrid/DoorKey-5x5-v0'),
    ('rooms_watermaze', 'dmlab30/rooms_watermaze'), ('atari75', 'atari57')])
def test_name_of_another_library_or_a_misspelt_one_is_translated(level, meant):
  with pytest.raises(config.ConfigError) as error:
    factory.check_level(level)
  assert str(error.value).endswith(
      f'there is no level {level!r} here; did you mean {meant!r}?')


@pytest.mark.parametrize('level', ['gym/Blackjack-v1', 'gym/Pong-v0'])
def test_name_that_gymnasium_may_know_is_left_to_it(level):
  factory.check_level(level)


def test_checks_at_launch_import_nothing_heavy():
  program = """
import sys
import impala_tf
from impala_tf import config
from impala_tf.agents import torsos
from impala_tf.algorithms import table
from impala_tf.envs import factory
impala_tf.register_torso('mine')
impala_tf.register_domain, impala_tf.register_algorithm
torsos.check('mlp')
table.check(config.Config())
for level in ('atari/pong', 'catch', 'tmaze/10', 'cartpole_swingup',
              'minigrid/DoorKey-5x5-v0', 'gym/CartPole-v1',
              'control/cartpole/balance', 'vizdoom/basic'):
  factory.check_level(level)
try:
  factory.check_level('atari/pnog')
except config.ConfigError:
  print(sorted({'tensorflow', 'ale_py', 'gymnasium', 'minigrid', 'pygame',
                'dm_control', 'mujoco', 'vizdoom'} & sys.modules.keys()))
"""
  ran = programs.run_code(program)
  assert ran.stdout == '[]\n', ran.stderr


@pytest.mark.parametrize('level, package', [
    ('dmlab30/rooms_watermaze', 'deepmind_lab.*docs/dmlab.md'),
    ('minigrid/DoorKey-5x5-v0', r'pip install.*minigrid\]'),
    ('babyai/GoToLocal-v0', r'pip install.*minigrid\]'),
    ('control/cartpole/balance', r'pip install.*dm_control\]'),
    ('vizdoom/basic', r'pip install.*vizdoom\]')])
def test_missing_simulator_is_named(monkeypatch, level, package):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(config.ConfigError, match=package):
    _make(level)


@pytest.mark.usefixtures('modules_forgotten')
@pytest.mark.parametrize('call', [factory.check_level, _make])
@pytest.mark.parametrize('level', [
    'gym/my_trap:Foo-v0', 'gym/:Foo-v0', 'minigrid/my_trap:Foo',
    'babyai/my_trap:Foo'])
def test_level_imports_no_module_that_is_not_trusted(
    tmp_path, monkeypatch, call, level):
  for name in ('my_trap', 'MiniGrid-my_trap', 'BabyAI-my_trap'):
    (tmp_path / f'{name}.py').write_text(
        f'open({str(tmp_path / "trace")!r}, "w")')
  monkeypatch.syspath_prepend(str(tmp_path))
  user_modules.load(['gymnasium'])  # Another one is trusted.
  with pytest.raises(config.ConfigError,
                     match='if you trust it, give --import='):
    call(level)
  assert not (tmp_path / 'trace').exists()


@pytest.mark.usefixtures('modules_forgotten')
def test_users_levels_may_name_their_module_and_be_named_like_games(tmp_path):
  (tmp_path / 'my_levels.py').write_text("""
import gymnasium
for name in 'Mine-v0', 'ALE/Pong-v9', 'PongNoFrameskip-v9':
  gymnasium.register(name, 'gymnasium.envs.classic_control:CartPoleEnv')
""")
  user_modules.load([str(tmp_path / 'my_levels.py')])
  for level in ('gym/my_levels:Mine-v0', 'gym/Mine-v0', 'gym/ALE/Pong-v9',
                'gym/PongNoFrameskip-v9'):
    factory.check_level(level)
    assert _make(level).level == level
  for level, words in (('gym/Mone-v0', 'gym/Mone-v0 cannot be made'),
                       ('gym/ALE/Pong-v8', "did you mean 'atari/pong'")):
    with pytest.raises(config.ConfigError, match=words):
      factory.check_level(level)  # Nobody has registered it.


@pytest.mark.parametrize('call', [factory.check_level, _make])
def test_arguments_cannot_name_a_module_to_import(call):
  with pytest.raises(config.ConfigError, match='imports what its arguments'):
    call('gym/GymV26Environment-v0')


@pytest.mark.parametrize('level', ['atari/pong', 'gym/CartPole-v1,catch'])
@pytest.mark.parametrize('section, options, words', [
    ('environment', {'kwargs': {'size': 3}},
     "kwargs is {'size': 3}, but .* takes no arguments; leave it out"),
    ('environment', {'episode_metrics': 'won'}, 'has no info to find'),
    ('agent', {'instruction_length': 16},
     'is 16, but .* gives no instructions; set it to 0')])
def test_options_are_for_levels_that_take_them(level, section, options, words):
  settings = _config(level).replaced(section, **options)
  for call in (lambda: factory.check_levels(settings),
               lambda: factory.make_environment(
                   level.split(',')[-1], 2, 3, settings, training=True)):
    with pytest.raises(config.ConfigError, match=words):
      call()


@pytest.mark.usefixtures('fake_deepmind_lab')
@pytest.mark.parametrize('level', [
    'minigrid/Empty-5x5-v0', 'babyai/GoToObjS4-v0',
    'dmlab30/language_select_described_object'])
def test_instructions_are_handed_over_where_they_are_wanted(level):
  env = factory.make_environment(level, 2, 3, _config(level, 7), training=True)
  env.reset()
  assert env.instruction_length == 7
  assert env.instruction.shape == (2, 7) and env.instruction[:, 0].all()
  env.close()


@pytest.mark.usefixtures('modules_forgotten')
def test_users_domain_is_a_row_too():

  def check(side):
    if side not in ('heads', 'tails'):
      raise config.ConfigError(f'there is no side {side!r}')

  coins = domain_lib.Domain(
      forms=('coins/<side>',), check=check, has_instructions=True,
      steps_batches=True, is_uniform=lambda config: True,
      make=lambda side, num_envs, seed, *unused: catch.CatchEnvironment(
          num_envs, seed, level=f'coins/{side}'))
  factory.register('coins', coins)
  both = 'coins/heads,coins/tails'
  factory.check_levels(_config(both, instruction_length=3))
  for side in 'heads', 'tails':
    assert _make(f'coins/{side}').level == f'coins/{side}'
  multi_level.make_probe(_config(both))
  for call, words in (
      (lambda: factory.register('coins', coins), "there is a domain 'coins'"),
      (lambda: _make('coins/edge'), "no side 'edge'"),
      (lambda: _make('coins'), "<function>' or 'coins/<side>', but is 'coins'"),
      (lambda: factory.check_levels(
          _config('catch,coins/heads', env_processes=2)),
       'the emulator of coins/heads steps a batch as a whole; leave it out'),
      (lambda: factory.check_levels(_config('catch', 3)),
       'are of babyai, coins, dmlab, dmlab30, minigrid')):
    with pytest.raises(config.ConfigError, match=words):
      call()
