"""Descriptions of domains, from which the factory makes environments.

A domain is all levels with the same prefix, such as 'atari/'.
"""

import difflib
import re
from typing import Callable, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.envs import environment
from impala_tf.runtime import user_modules


def check_known(name: str, level: str, known: Sequence[str],
                otherwise: str, near: Sequence[str] = ()) -> None:
  """Raises ConfigError, with the nearest names, unless a name is known.

  `level` has a gap, '{}', for the name. `otherwise` is said if none is near.
  """
  if name not in known:
    near = near or difflib.get_close_matches(name, known, n=3)
    hint = (f'did you mean {" or ".join(map(level.format, near))}?' if near
            else otherwise)
    raise config_lib.ConfigError(
        f'EnvironmentConfig.level: there is no level {level.format(name)}; '
        f'{hint}')


def check_installed(package: str, levels: str) -> None:
  """Raises ConfigError if an optional package is missing; imports nothing."""
  user_modules.check_installed(
      package, package, f'EnvironmentConfig.level: a level of {levels}')


class Domain(NamedTuple):
  """A description of a domain for the rest of the system.

  Attributes:
    forms: how its levels are written, for messages and checks. A placeholder,
      as in `atari/<game>`, stands for any text that is not empty.
    check: function that raises ConfigError for an unknown level or a missing
      simulator, of which it imports none. Its argument is the level's name
      without the domain, 'pong' for 'atari/pong' and '' for 'catch'.
    make: function that makes a batch of one level, or raises ConfigError. Its
      arguments are the name as for `check`; E; a seed of 0 or more, from which
      environment i takes `seed + i`; the config of the run; and whether the
      batch is for training, False if full games are scored.
    has_instructions: whether its levels give instructions in words.
    takes_kwargs: whether its levels take `EnvironmentConfig.kwargs`.
    has_info: whether its levels take `EnvironmentConfig.episode_metrics`.
    steps_batches: whether its simulator steps whole batches, which leaves
      nothing to do for `ActorConfig.env_processes`.
    is_uniform: function that returns whether a config gives all its levels the
      same actions and observations, so that none is started for a comparison.
    action_remedy: advice to the user if the actions of two levels differ.
  """
  forms: tuple[str, ...]
  check: Callable[[str], object]
  make: Callable[[str, int, int, config_lib.Config, bool],
                 environment.BatchedEnvironment]
  has_instructions: bool = False
  takes_kwargs: bool = False
  has_info: bool = False
  steps_batches: bool = False
  is_uniform: Callable[[config_lib.Config], bool] = lambda config: False
  action_remedy: str = 'leave one of them out'

  def has_form_of(self, level: str) -> bool:
    """Returns whether a level's name has one of the domain's forms."""
    return any(level == form or '<' in form and re.match(
        re.escape(form.partition('<')[0]) + '.', level) for form in self.forms)
