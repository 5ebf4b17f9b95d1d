"""The description of a domain, by which the factory makes its levels.

A domain is all levels whose names begin alike, such as 'atari/pong' and
'atari/breakout'. Its file in `envs/` ends with a `Domain`, and the table in
`envs.factory` names it: a new domain is such a file and a row of that table.
"""

from typing import Callable, NamedTuple, Tuple

from impala_tf import config as config_lib
from impala_tf.envs import environment


class Domain(NamedTuple):
  """Everything that the rest of the system must know of a domain.

  Attributes:
    forms: how its levels are written, for messages and for telling names that
      cannot be levels. A placeholder in angle brackets, as in 'atari/<game>',
      stands for any text that is not empty; 'catch' stands for itself.
    check: raises ConfigError for a level that cannot be made, because its name
      is unknown or its simulator is missing. It is called with the level's
      name without the domain, 'pong' for 'atari/pong' and '' for 'catch', and
      imports no simulator, so that programs may call it as they start.
    make: makes a batch of one level. It is called with that same name; with E,
      the number of environments; with a seed of 0 or more, from which
      environment i takes `seed + i`; with the config of the run; and with
      whether the batch is for training (False where full games are scored). It
      raises ConfigError.
    has_instructions: whether its levels tell their agents in words what to do.
    steps_batches: whether its simulator steps a whole batch by itself, so that
      `ActorConfig.env_processes` would have nothing to do.
    is_uniform: whether one agent can play all its levels with a given config,
      so that they need not be started to be compared.
    action_remedy: advice to the user where two of its levels differ in their
      actions.
  """
  forms: Tuple[str, ...]
  check: Callable[[str], object]
  make: Callable[[str, int, int, config_lib.Config, bool],
                 environment.BatchedEnvironment]
  has_instructions: bool = False
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
