"""Flags of the roles: what is refused, and in which words."""


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
    (['actor', '--address=:50'], "--address must be HOST:PORT, but is ':50'"),
    (['actor', '--address=x:0'], '--address must be HOST:PORT'),
    (['actor', '--address=x:65536'], '--address must be HOST:PORT'),
    (['actor', '--address=x:y'], '--address must be HOST:PORT'),
    (['actor', '--address=x:1', '--task=-1'], '--task must be at least 0'),
    (['actor', '--address=x:1', '--wait_secs=0'], '--wait_secs must be above'),
    (['actor', '--address=x:1', '--wait_secs=nan'], '--wait_secs must be'),
    (['actor', '--address=x:1', '--profile'], '--profile needs --run_dir'),
    (['actor', '--address=x:1', '--allow_changes'], 'are for learners; leave'),
    (['actor', '--address=x:1', '--init_from=x'], 'are for learners; leave'),
    (['actor', '--address=x:1', '--core=0'],
     '--core is for actors that train.sh starts; leave it out'),
    (['learner', '--address=x:1', _CONFIG, '--core=0'],
     '--core is for actors; leave it out'),
    (['evaluator', '--address=x:1', '--supervised', '--core=0'],
     '--core is for actors; leave it out'),
    (['evaluator', '--address=x:1'], 'needs --run_dir, or --output'),
    (['learner', '--address=x:1'], 'needs --config for a new run'),
    (['learner', '--address=x:1', _CONFIG, '--learners=x:2'],
     '--learners is for several, but LearnerConfig.num_learners is 1'),
    (['learner', '--address=x:1', _CONFIG, *_TWO_LEARNERS],
     'num_learners is 2, but --learners gives 0 addresses; give one of each'),
    (['learner', '--address=x:1', _CONFIG, *_TWO_LEARNERS, '--learners=x:2,y'],
     "--learners must be HOST:PORT, but is 'y'"),
    (['learner', '--address=x:1', _CONFIG, *_TWO_LEARNERS, '--learners=x:2,y:2',
      '--task=2'], '--task of a learner must be below 2'),
    (['learner', '--address=x:1', _CONFIG, *_TWO_LEARNERS,
      '--learners=x:2,y:2'], 'several learners need --run_dir, the same'),
    (['actor', '--address=x:1', '--replay_address=y'],
     "--replay_address must be HOST:PORT, but is 'y'"),
    (['evaluator', '--address=x:1', '--output=x', '--replay_address=y:1'],
     '--replay_address is for learners and actors'),
    (['actor', '--address=x:1', '--replay_address=y:1'],
     '--replay_address needs --agent, another number'),
    (['actor', '--address=x:1', '--agent=1'], 'give --replay_address, too'),
    (['actor', '--address=x:1', '--replay_address=y:1', '--agent=-1'],
     '--agent must be at least 0'),
    (['actor', '--address=x:1', '--num_agents=2'], 'are for the replay; leave'),
    (['replay', '--address=x:1', '--num_agents=2'], 'a replay needs --config'),
    (['replay', '--address=x:1', _CONFIG], 'a replay needs --num_agents'),
    (['replay', '--address=x:1', _CONFIG, '--num_agents=2', '--absent=1,2'],
     '--absent must be numbers below 2'),
    (['replay', '--address=x:1', _CONFIG, '--num_agents=2',
      '--replay_address=y:1'], '--replay_address is for learners and actors'),
    (['replay', '--address=x:1', _CONFIG, '--num_agents=2',
      '--gin_binding=ReplayConfig.survives_resume = True'],
     'survives_resume needs --run_dir of the replay'),
    (['learner', '--address=x:1', _CONFIG, '--replay_address=y:1'],
     'but ReplayConfig.replay_fraction is 0'),
    (['learner', '--address=x:1', _CONFIG, '--replay_address=y:1',
      '--gin_binding=ReplayConfig.replay_fraction = 0.5'],
     '--replay_address needs --agent, another number'),
    (['learner', '--address=x:1', _CONFIG, '--replay_address=y:1',
      '--gin_binding=ReplayConfig.replay_fraction = 0.5',
      "--gin_binding=ReplayConfig.sampling = 'priorities'"],
     "ReplayConfig.sampling is 'priorities', but a replay that agents share"),
    (['replay', '--address=x:1', _CONFIG, '--num_agents=2',
      "--gin_binding=ReplayConfig.sampling = 'episodes'"],
     "ReplayConfig.sampling is 'episodes', but a replay that agents share"),
    (['learner', '--address=x:1', '--run_dir=runs/no/such'],
     'runs/no/such holds no run to be resumed; give --config'),
    (['learner', '--address=x:1', '--config=no.gin'], 'no file no.gin'),
    (['learner', '--address=x:1', _CONFIG,
      '--gin_binding=ExperimentConfig.in_process = True'], 'leaves no roles'),
    (['learner', '--address=x:1', _CONFIG,
      "--gin_binding=EnvironmentConfig.level = 'atari/pnog'"],
     'mean atari/pong')])
def test_bad_flag_is_refused_in_one_line(refused, arguments, words):
  args = flags.make_parser('').parse_args(arguments)
  assert words in refused(
      lambda: program.run(lambda: role._run(args)))
