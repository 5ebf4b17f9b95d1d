"""Flags of the roles and their checks; see `role`."""

import argparse
from typing import Callable

from impala_tf import config as config_lib
from impala_tf.cli import command_line
from impala_tf.cli import program
from impala_tf.roles import beginning
from impala_tf.runs import gin_config
from impala_tf.runs import run_directory
from impala_tf.runs import sharing as sharing_lib
from impala_tf.runtime import control as control_lib
from impala_tf.runtime import ports
from impala_tf.runtime import waiting
from impala_tf.runtime import wording

# Flags that only some roles have, and the names of these roles.
_ROLES_OF = {'allow_changes': 'learner', 'init_from': 'learner',
             'learners': 'learner', 'output': 'evaluator',
             'seed': 'actor and evaluator', 'profile': 'learner and actor',
             'replay_address': 'learner and actor',
             'agent': 'learner and actor', 'core': 'actor',
             'num_agents': 'replay', 'absent': 'replay'}


def make_parser(description: str) -> argparse.ArgumentParser:
  """Makes one parser with the flags of every role."""
  parser = command_line.Parser(description=description)
  parser.add_argument(
      'role', choices=('learner', 'actor', 'evaluator', 'replay'))
  parser.add_argument('--address', required=True, metavar='HOST:PORT',
                      help='where the learner, or the replay, listens, as its '
                      'peers reach it')
  parser.add_argument('--task', type=int, default=0,
                      help='which of the actors, or of several learners, this '
                      'is, from 0 on (default: %(default)s)')
  parser.add_argument('--learners', metavar='HOST:PORT,HOST:PORT',
                      help='learner: where learners reach each other, that '
                      'with --task=0 first; not --address')
  parser.add_argument('--num_agents', type=int,
                      help='replay: number of the agents that share it')
  parser.add_argument('--absent', metavar='N,N',
                      help='replay: numbers of agents that will not come, '
                      'having ended; the others do not wait for them')
  command_line.add_config(
      parser, 'learner: what to train (default: as in --run_dir); others: '
      'refuse a learner with another config; replay: config of any agent')
  add_run(parser, 'learner, actor: ')
  parser.add_argument('--run_dir',
                      help='learner: where logs and checkpoints go, a path or '
                      'a URL that TensorFlow opens; an existing run is resumed '
                      '(default: a new one in runs/); replay: where it is '
                      'saved, if ReplayConfig.survives_resume; evaluator: '
                      f'writes to {run_directory.EVALUATION}/ in it')
  parser.add_argument('--output', metavar='DIR',
                      help='evaluator: writes there instead')
  parser.add_argument('--wait_secs', type=float, default=waiting.LIMIT_SECS,
                      help='longest wait for a peer, at any time '
                      '(default: %(default)g)')
  parser.add_argument('--seed', type=int, help='actor, evaluator: of games and '
                      'actions (default: another each time; evaluator: --task)')
  parser.add_argument('--profile', action='store_true',
                      help='learner, actor: record what time goes to, in '
                      '--run_dir')
  parser.add_argument('--core', type=int,
                      help='actor of `train`: stays on the core of this '
                      'number (default: moves freely)')
  parser.add_argument('--supervised', action='store_true',
                      help='for `train` only: the run directory is claimed '
                      'already; ends with its standard input')
  return parser


def add_run(parser: argparse.ArgumentParser, roles: str = '') -> None:
  """Adds flags that all training programs share; `roles` begins help texts."""
  command_line.add_gin_binding(parser)
  program.add_import(parser)
  parser.add_argument('--allow_changes', action='store_true',
                      help='resume a run with a config that differs from the '
                      'one in --run_dir; what cannot change is refused')
  parser.add_argument('--init_from', metavar='RUN_DIR[:best]',
                      help='a new run begins with the parameters of another '
                      "run's newest checkpoint, its :best, or that of so many "
                      'updates (RUN_DIR:1200); heads of another size start '
                      'fresh, and so does the optimiser')
  parser.add_argument('--replay_address', metavar='HOST:PORT',
                      help=f'{roles}where the replay is that several agents '
                      "share (default: in the learner's own server)")
  parser.add_argument('--agent', type=int,
                      help=f"{roles}this agent's number among them, from 0 on")


def add_training(parser: command_line.Parser, default: str = '') -> None:
  """Adds all flags of programs that start whole runs, such as `train`."""
  command_line.add_config(
      parser, f'what to train (default: as in --run_dir{default})')
  parser.add_argument('--run_dir', help='where logs and checkpoints go: a path '
                      'that all machines of the run share, or a URL that '
                      'TensorFlow opens there; an existing run is resumed '
                      '(default: a new one in runs/)')
  parser.add_argument('--port', type=int,
                      help='of the Reverb server, for others to connect to '
                      '(default: a free one); with several learners, the '
                      'first of one port each')
  add_run(parser)
  parser.add_argument(
      '--network', choices=('auto', 'private', 'open'), default='auto',
      help='private: no other machine can reach the run, nor the run others; '
      'open: any can; auto: private where the system allows it, unless others '
      'are to connect, as other flags say (default: %(default)s)')
  parser.add_argument('--evaluate', action='store_true',
                      help='play full games beside training, and log to '
                      'evaluation/ in the run directory')
  parser.add_argument('--track', action='store_true',
                      help='send rows and config to Weights & Biases; its own '
                      'variables apply, such as WANDB_MODE=offline and '
                      'WANDB_PROJECT (docs/tracking.md)')


def sharing(args: argparse.Namespace) -> control_lib.Sharing:
  """Returns the shared replay's address and agent number, from the flags."""
  return control_lib.Sharing(args.replay_address, args.agent or 0)


def load_config(args: argparse.Namespace, default: str | None = None
                ) -> config_lib.Config:
  """Reads the given config, or else that of the run in --run_dir.

  Without a `default` it is for separate processes. Raises UserError if it
  cannot be trained, or not with these flags.
  """
  path = run_directory.config_path(args.config, args.run_dir) or default
  if path is None:
    raise config_lib.UserError(
        'a config is needed; give what to train, such as '
        'configs/atari/pong.gin, or --run_dir of a run to be resumed')
  config = gin_config.load(path, args.gin_binding)
  if config.experiment.in_process and default is None:
    raise config_lib.UserError(
        'ExperimentConfig.in_process runs all roles in one process; set it to '
        f'False, or use {wording.command("train")}')
  beginning.check_names(config)
  check_sharing(args)
  if args.replay_address is not None:
    if not config.num_replayed:
      raise config_lib.UserError(
          '--replay_address is for runs with replay, but '
          'ReplayConfig.replay_fraction is 0; leave one of them out')
    sharing_lib.check_sampling(config)
  return config


def check_sharing(args: argparse.Namespace) -> None:
  """Raises UserError for an invalid or lone --replay_address or --agent."""
  if (args.replay_address is None) != (args.agent is None):
    raise config_lib.UserError(
        '--replay_address needs --agent, and the reverse: the replay that '
        'several agents share, and which of them this is, from 0 on')
  if args.replay_address is not None:
    parse_address(args.replay_address, '--replay_address')
    config_lib.check_range('--agent', args.agent, at_least=0)


def parse_address(text: str, flag: str = '--address') -> tuple[str, int]:
  """Splits HOST:PORT; raises UserError, which names `flag`, if it is bad."""
  host, _, port = text.rpartition(':')
  if (not host or not port.isdecimal() or not 0 < int(port) < 2**16
      or ':' in host and not host.startswith('[')):
    raise config_lib.UserError(
        f'{flag} must be HOST:PORT, but is {text!r}; give the machine of the '
        'learner (IPv6 in brackets: [::1]:5000) and the port it listens on')
  return host, int(port)


def free_port(address: str, flag: str = '--address') -> int:
  """Returns the address's port; raises UserError if it is taken."""
  try:
    return ports.choose(parse_address(address)[1])
  except OSError as error:
    raise config_lib.UserError(f'{flag}: {error}') from error


def check(args: argparse.Namespace) -> None:
  """Raises UserError for a role's invalid flags, before any wait for peers."""
  parse_address(args.address)
  for flag, roles in _ROLES_OF.items():
    value = getattr(args, flag)
    if args.role not in roles.split(' and ') and not (
        value is None or value is False):
      raise config_lib.UserError(f'--{flag} is for {roles}; leave it out')
  check_sharing(args)
  # By hand it starts over as the same process, and would count one core.
  if args.core is not None and not args.supervised:
    raise config_lib.UserError(
        '--core is for actors that `train` starts; leave it out')
  config_lib.check_range('--task', args.task, at_least=0)
  config_lib.check_range('--seed', args.seed, at_least=0)
  config_lib.check_range('--wait_secs', args.wait_secs, above=0)
  if args.gin_binding and not (args.config or args.run_dir):
    raise config_lib.UserError(
        '--gin_binding changes --config, or that of --run_dir; give one, or '
        "leave it out to take the learner's")
  if args.role == 'evaluator' and not (args.output or args.run_dir):
    raise config_lib.UserError(
        'an evaluator needs --run_dir, or --output if it cannot see that')
  if args.role == 'actor' and args.profile and not args.run_dir:
    raise config_lib.UserError('--profile needs --run_dir to write to')
  config_lib.check_range('--num_agents', args.num_agents, at_least=1)
  if args.role == 'replay':
    if not args.config or args.num_agents is None:
      raise config_lib.UserError(
          'a replay needs --config of one of its agents, and --num_agents')
    absent_agents(args)


def absent_agents(args: argparse.Namespace) -> list[int]:
  """Returns agent numbers in --absent; raises UserError if any is invalid."""
  numbers = args.absent.split(',') if args.absent else []
  for number in numbers:
    if not number.isdecimal() or int(number) >= args.num_agents:
      raise config_lib.UserError(
          f'--absent must be numbers below {args.num_agents} with commas '
          f'between them, but is {args.absent!r}')
  return [int(number) for number in numbers]


def learner_addresses(args: argparse.Namespace, number: int) -> list[str]:
  """Reads --learners; raises UserError if flags misfit `number` learners."""
  addresses = args.learners.split(',') if args.learners else []
  for address in addresses:
    parse_address(address, '--learners')
  if len(addresses) != (number if number > 1 else 0):
    raise config_lib.UserError(
        f'LearnerConfig.num_learners is {number}, but --learners gives '
        f'{wording.counted(len(addresses), "address")}; give one for '
        'each of several learners, commas between them, or none for one alone')
  if number > 1:
    config_lib.check_range('--task of a learner', args.task, below=number)
  if number > 1 and not args.run_dir:
    raise config_lib.UserError(
        'several learners need --run_dir, the same directory for all')
  return addresses


def make_say(args: argparse.Namespace) -> Callable[[str], None]:
  """Makes a function that prints lines, each after the role's name."""
  is_one_of_many = args.role == 'actor' or args.learners
  name = f'{args.role} {args.task}' if is_one_of_many else args.role
  return lambda line: print(f'{name}: {line}', flush=True)
