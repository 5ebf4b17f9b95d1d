"""Tests of the commands of roles."""

import pytest

from impala_tf.runtime import role_commands
from impala_tf.runtime import user_modules


def test_no_two_starts_of_actors_have_one_seed():
  # A run that goes on after 2,000 updates, and again after 5,000.
  seeds = [role_commands.actor('x:1', task, attempt, num_updates=updates)[6]
           for task in range(100) for attempt in range(30)
           for updates in (0, 2_000, 5_000)]
  assert role_commands.actor('host:1', 2, 3, '--profile') == [
      'impala_tf', 'role', 'actor', '--supervised', '--address=host:1',
      '--task=2', '--seed=30002', '--profile']
  assert len(set(seeds)) == len(seeds)


def test_only_several_learners_know_each_other():
  both = ['host:5', 'host:6']
  assert role_commands.learner('host:1', 1, both) == [
      'impala_tf', 'role', 'learner', '--supervised', '--address=host:1',
      '--task=1', '--learners=host:5,host:6']
  for addresses in ([], ['host:5']):
    assert not [flag for flag in role_commands.learner('host:1', 0, addresses)
                if flag.startswith('--learners')]


@pytest.mark.usefixtures('modules_forgotten')
def test_roles_import_what_their_supervisor_has_imported(tmp_path):
  path = tmp_path / 'my_file.py'
  path.touch()
  user_modules.load([str(path)])
  for command in (role_commands.learner('host:1', 0, []),
                  role_commands.actor('host:1', 2, 3, '--profile'),
                  role_commands.command('replay', 'host:1')):
    assert command[-1] == f'--import={path}'
