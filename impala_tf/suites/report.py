"""A suite's scores as a table beside the paper's."""

from impala_tf.suites import suite as suite_lib

_MISSING = '–'
# Rows under the levels, as tables 3 and 4 have them.
_SUMMARY_ROWS = {
    'median': 'human-normalised median',
    'mean': 'human-normalised mean',
    'mean_capped': 'human-normalised mean, capped at 100%',
}


def markdown(suite: suite_lib.Suite, scores: suite_lib.Scores) -> str:
  """Writes a table in the form of the paper's tables B.1 and C.1.

  All columns are summed up with the same reference scores. A sum is of all
  levels or not there at all: over a part it could not be compared.

  Args:
    suite: which.
    scores: mean raw return by level, of some or all of `suite.levels`.

  Returns:
    Lines of Markdown.

  Raises:
    ValueError: for a level that is not one of `suite.levels`.
  """
  unknown = [level for level in scores if level not in suite.levels]
  if unknown:
    raise ValueError(
        f'not scored in {suite.title}: {", ".join(map(repr, unknown))}')
  columns = {'ours': scores, 'human': suite.human, 'random': suite.random,
             **suite.paper}
  rows = [['level', *columns, 'ours, normalised']]
  for level in suite.levels:
    normalised = _MISSING
    if level in scores:
      normalised = _percent(suite.human_normalised_score(level, scores[level]))
    rows.append([level.partition('/')[2],
                 *(_score(column, level, suite.decimals)
                   for column in columns.values()),
                 normalised])
  summaries = [_summary(suite, column) for column in columns.values()]
  for name, title in _SUMMARY_ROWS.items():
    rows.append([f'**{title}**', *(s[name] for s in summaries), ''])
  lines = [f'| {" | ".join(row)} |' for row in rows]
  # Names to the left, numbers to the right.
  lines.insert(1, '|---|' + '---:|' * (len(rows[0]) - 1))
  return '\n'.join([
      *lines, '',
      f'Levels of {suite.title}: {len(scores)} of {len(suite.levels)} scored. '
      f'{suite.note}', ''])


def _score(column: suite_lib.Scores, level: str, decimals: int) -> str:
  return f'{column[level]:.{decimals}f}' if level in column else _MISSING


def _percent(fraction: float) -> str:
  return f'{fraction:.1%}'


def _summary(suite: suite_lib.Suite, column: suite_lib.Scores) -> dict:
  if len(column) < len(suite.levels):
    return dict.fromkeys(_SUMMARY_ROWS, _MISSING)
  return {name: _percent(value)
          for name, value in suite.summary(column)._asdict().items()}
