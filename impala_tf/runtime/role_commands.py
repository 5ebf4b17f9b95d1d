"""Command lines of the roles of a supervised run; see `impala_tf.cli.role`.

Each list is a module and its arguments, which follow `python -m`. Roles import
the same user modules as this process.
"""

from typing import Sequence

from impala_tf.runtime import user_modules

# More than a run has actors, so that no two seeds of a run are equal.
_SEEDS_AN_ATTEMPT = 10_000


def learner(address: str, task: int, joint_addresses: Sequence[str],
            *flags: str) -> list[str]:
  """Returns the command of learner number `task`, with its server's address.

  `joint_addresses` are for learners to reach each other, ignored for one.
  """
  joint = [f'--learners={",".join(joint_addresses)}']
  return command('learner', address, f'--task={task}',
                 *(joint if len(joint_addresses) > 1 else ()), *flags)


def actor(address: str, task: int, attempt: int, *flags: str,
          num_updates: int = 0) -> list[str]:
  """Returns an actor's command, with a seed that no other start has.

  With an old seed, a restarted actor or resumed run would repeat past episodes.
  `attempt` counts the actor's earlier starts since the run started, or resumed
  after `num_updates`.
  """
  seed = task + (attempt + num_updates) * _SEEDS_AN_ATTEMPT
  return command('actor', address, f'--task={task}', f'--seed={seed}', *flags)


def command(role: str, address: str, *flags: str) -> list[str]:
  """Returns a role's command; `address` is the learner's or the role's own."""
  return ['impala_tf', 'role', role, '--supervised',
          f'--address={address}', *flags, *user_modules.flags()]
