"""Results of an agent on a suite: a JSON file, and a table beside it."""

import json
import os
from typing import Any, Mapping, Sequence

from impala_tf import config as config_lib
from impala_tf.plots import suite_tables
from impala_tf.storage import files
from impala_tf.suites import levels as levels_lib
from impala_tf.suites import suite as suite_lib

# Fields that results of levels must share to be put into one table.
CONDITIONS = ('trained_frames', 'episodes', 'seed', 'deterministic')
# The first is missing in older files, the second in results without bindings.
_ABSENT = {'deterministic': False, 'gin_binding': []}
# Errors of reading a file of something else.
_NO_RESULTS = (OSError, ValueError, TypeError, KeyError, AttributeError)


class SuiteResults:
  """Results by level, in `path` and, as a table, in the same name with `.md`.

  Levels of an older checkpoint, or of other `conditions`, stay in the file but
  do not count until they are played again.
  """

  def __init__(self, path: str, suite: suite_lib.Suite,
               conditions: dict[str, Any]):
    """Reads results from a path or URL if it exists.

    `conditions` are fields that results in one table share. Raises UserError if
    the file holds anything else.
    """
    self._path = path
    self.table_path = os.path.splitext(path)[0] + '.md'
    self._suite = suite
    self._conditions = conditions
    self._levels = {}
    if not files.exists(path):
      return
    try:
      contents = json.loads(files.read(path))
      if contents['suite'] != suite.name:
        raise ValueError('It is of another suite.')
      self._levels = {
          level: {**_ABSENT, **result, 'mean': float(result['mean'])}
          for level, result in contents['levels'].items()}
    except _NO_RESULTS as error:
      raise config_lib.UserError(
          f'{path} holds no results of {suite.title}; move it away, or choose '
          'another --output') from error

  def has(self, level: str) -> bool:
    result = self._levels.get(level, {})
    asked = result.get('episodes', 0) + result.get('episodes_left', 0)
    return self._conditions.items() <= {**result, 'episodes': asked}.items()

  def counted(self) -> dict[str, dict[str, Any]]:
    """Returns results under the current conditions, in the suite's order."""
    return {level: self._levels[level]
            for level in self._suite.levels if self.has(level)}

  def scores(self) -> dict[str, float]:
    """Returns mean raw returns of the levels in `counted`."""
    return {level: result['mean'] for level, result in self.counted().items()}

  def add(self, level: str, result: dict[str, Any]) -> None:
    self._levels[level] = {**_ABSENT, **result}
    self.write()

  def write(self) -> None:
    scores = self.scores()
    contents = {'suite': self._suite.name, **self._conditions,
                'levels_counted': len(scores), **self.summary(),
                'levels': self._levels}
    files.write_json(self._path, contents)
    files.write(self.table_path, suite_tables.markdown(
        self._suite, {'ours': scores}).encode())

  def summary(self) -> dict[str, float]:
    """Returns the suite's statistics; empty while a level lacks a score."""
    sums = suite_tables.summary(self._suite, self.scores())
    return {f'human_normalised_{name}': value for name, value in sums.items()}


def _conditions(contents: Mapping[str, Any]) -> dict[str, Any]:
  return {name: {**_ABSENT, **contents}[name] for name in CONDITIONS}


def read_levels(path: str, bindings: Sequence[str] = ()
                ) -> Mapping[str, dict[str, Any]]:
  """Reads results by level from a file of one level, several, or a suite.

  Only levels that count are returned, and results by the run's config with
  these bindings. Raises UserError if the file holds anything else.
  """
  try:
    contents = json.loads(files.read(path))
    if 'suite' not in contents:
      played = contents.get('levels') or {contents['level']: contents}
      return {level: {**_conditions(result), **result,
                      'mean': float(result['mean'])}
              for level, result in played.items()
              if result.get('gin_binding', []) == list(bindings)}
    suite = levels_lib.SUITES[contents['suite']]
    conditions = {**_conditions(contents), 'gin_binding': list(bindings)}
  except _NO_RESULTS as error:
    raise config_lib.UserError(
        f'{path} holds no evaluation ({error!r}); remove it, and evaluate '
        'again') from error
  return SuiteResults(path, suite, conditions).counted()
