"""Flags of the roles that are refused."""

import pytest

from impala_tf.cli import program
from impala_tf.cli import role
from impala_tf.cli.roles import flags
from tests.fixtures import programs

_CONFIG = f'--config={programs.CATCH[0]}'
_TWO_LEARNERS = ('--gin_binding=LearnerConfig.num_learners = 2',
                 '--gin_binding=ActorConfig.num_actors = 2')


@pytest.mark.parametrize('arguments, words', [
    (['actor', '--address=host'], "--address must be HOST:PORT, but is 'host'"),
    (['actor', '--address=::1:5000'], 'but is \'::1:5000\'; give the machine'),
    (['actor', '--task=-1'], '--task must be at least 0'),
    (['actor', '--seed=-1'], '--seed must be at least 0'),
    (['actor', '--profile'], '--profile needs --run_dir'),
    (['evaluator', '--output=x', '--gin_binding=ReplayConfig.nope = 1'],
     '--gin_binding changes --config, or that of --run_dir; give one'),
    (['actor', '--allow_changes'], '--allow_changes is for learner; leave'),
    (['learner', '--seed=0'], '--seed is for actor and evaluator; leave'),
    (['actor', '--core=0'],
     '--core is for actors that `train` starts; leave it out'),
    (['evaluator', '--supervised', '--core=0'], '--core is for actor; leave'),
    (['evaluator'], 'needs --run_dir, or --output'),
    (['learner'], 'a config is needed; give what to train, such as configs/'),
    (['learner', _CONFIG, '--learners=x:2'],
     'num_learners is 1, but --learners gives 1 address; give one for each'),
    (['learner', _CONFIG, *_TWO_LEARNERS],
     'num_learners is 2, but --learners gives 0 addresses; give one'),
    (['learner', _CONFIG, *_TWO_LEARNERS, '--learners=x:2,y'],
     "--learners must be HOST:PORT, but is 'y'"),
    (['learner', _CONFIG, *_TWO_LEARNERS, '--learners=x:2,y:2', '--task=2'],
     '--task of a learner must be below 2'),
    (['learner', _CONFIG, *_TWO_LEARNERS, '--learners=x:2,y:2'],
     'several learners need --run_dir, the same'),
    (['actor', '--replay_address=y:1'],
     '--replay_address needs --agent, and the reverse'),
    (['replay', '--num_agents=2'], 'a replay needs --config'),
    (['replay', _CONFIG], ' and --num_agents'),
    (['replay', _CONFIG, '--num_agents=0'], '--num_agents must be at least 1'),
    (['replay', _CONFIG, '--num_agents=2', '--absent=1,2'],
     '--absent must be numbers below 2'),
    (['replay', _CONFIG, '--num_agents=2',
      '--gin_binding=ReplayConfig.survives_resume = True'],
     'survives_resume needs --run_dir of the replay'),
    (['learner', _CONFIG, '--replay_address=y:1', '--agent=0'],
     'but ReplayConfig.replay_fraction is 0'),
    (['learner', _CONFIG, '--replay_address=y:1', '--agent=0',
      '--gin_binding=ReplayConfig.replay_fraction = 0.5',
      "--gin_binding=ReplayConfig.sampling = 'priorities'"],
     "ReplayConfig.sampling is 'priorities', but a replay that agents share"),
    (['learner', '--run_dir=runs/no/such'], 'or --run_dir of a run to be'),
    (['learner', _CONFIG, '--gin_binding=ExperimentConfig.in_process = True'],
     'runs all roles in one')])
def test_bad_flag_is_refused_in_one_line(refused, arguments, words):
  name, *more = arguments
  args = flags.make_parser('').parse_args([name, '--address=x:1', *more])
  assert words in refused(lambda: program.run(lambda: role.run(args)))
