"""Descriptions of domains, from which the factory makes environments.

A domain is all levels whose names begin alike, such as 'atari/pong' and
'atari/breakout'. Its file in `envs/` ends with a `Domain`, and the table in
`envs.factory` names it: a new domain is such a file and a row of that table.
"""

from typing import Callable, NamedTuple, Tuple

from impala_tf import config as config_lib
from impala_tf.envs import environment


class Domain(NamedTuple):
  """A description of a domain for the rest of the system.

  Attributes:
    forms: the ways in which its levels are written. Other names are refused,
      with a message that lists all forms. A placeholder in angle brackets, as
      in 'atari/<game>', stands for any text that is not empty.
    check: function that raises ConfigError for a level that cannot be made,
      because its name is unknown or its simulator is missing. Its argument is
      the level's name without the domain, 'pong' for 'atari/pong' and '' for
      'catch'. It imports no simulator, so that programs can call it as they
      start.
    make: function that makes a batch of one level, or raises ConfigError. Its
      arguments are the name as for `check`; E, the number of environments; a
      seed of 0 or more, from which environment i takes `seed + i`; the config
      of the run; and whether the batch is for training, which is False where
      full games are scored.
    has_instructions: whether its levels give instructions in words.
    takes_kwargs: whether `EnvironmentConfig.kwargs` are for its levels.
    steps_batches: whether its simulator steps a whole batch by itself, so that
      `ActorConfig.env_processes` would have nothing to do.
    is_uniform: function that tells of a config whether all levels of the domain
      have the same actions and observations with it; they are not started for a
      comparison then.
    action_remedy: advice to the user where two of its levels differ in their
      actions.
  """
  forms: Tuple[str, ...]
  check: Callable[[str], object]
  make: Callable[[str, int, int, config_lib.Config, bool],
                 environment.BatchedEnvironment]
  has_instructions: bool = False
  takes_kwargs: bool = False
  steps_batches: bool = False
  is_uniform: Callable[[config_lib.Config], bool] = lambda config: False
  action_remedy: str = 'leave one of them out'

  def has_form_of(self, level: str) -> bool:
    """Tells whether a level is written in one of the domain's forms."""
    return any(_matches(level, form) for form in self.forms)


def _matches(level: str, form: str) -> bool:
  prefix, placeholder, _ = form.partition('<')
  if not placeholder:
    return level == form
  return level.startswith(prefix) and len(level) > len(prefix)
