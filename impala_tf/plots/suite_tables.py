"""Tables of a suite's scores beside the paper's."""

from typing import Mapping, Sequence

from impala_tf.suites import suite as suite_lib

_MISSING = '–'
# Rows under the levels, as tables 3 and 4 have them.
_SUMMARY_ROWS = {
    'median': 'human-normalised median',
    'mean': 'human-normalised mean',
    'mean_capped': 'human-normalised mean, capped at 100%',
}


def table(rows: Sequence[Sequence[str]], num_names: int = 1) -> str:
  """Returns a Markdown table.

  Args:
    rows: rows of cells, the header first.
    num_names: number of first columns that hold names, which are aligned to the
      left; the others hold numbers, which are aligned to the right.
  """
  lines = [f'| {" | ".join(row)} |' for row in rows]
  lines.insert(1, '|' + '---|' * num_names +
               '---:|' * (len(rows[0]) - num_names))
  return '\n'.join(lines)


def markdown(suite: suite_lib.Suite,
             ours: Mapping[str, suite_lib.Scores]) -> str:
  """Returns tables in the form of the paper's.

  The first table has every level, as tables B.1 and C.1, and sums up all
  columns with the same reference scores. The second has the sums alone, beside
  those of agents that the paper prints no levels of (tables 3 and 4). A sum is
  of all levels or missing: over some levels it could not be compared.

  Args:
    suite: suite of the levels.
    ours: title of a column to mean raw return by level, of some or all of
      `suite.levels`.

  Returns:
    Markdown text.

  Raises:
    ValueError: for a level that is not one of `suite.levels`.
  """
  unknown = [level for scores in ours.values() for level in scores
             if level not in suite.levels]
  if unknown:
    raise ValueError(
        f'not scored in {suite.title}: {", ".join(map(repr, unknown))}')
  num_scored = ', '.join(f'{len(scores)} of {len(suite.levels)} scored'
                         + (f' ({name})' if len(ours) > 1 else '')
                         for name, scores in ours.items())
  return '\n'.join([
      _levels(suite, ours), '', f'Levels of {suite.title}: {num_scored}. '
      f'{suite.note}', '', _sums(suite, ours), '',
      f'In bold: ours. The others are {suite.published_in} of the paper, as it '
      'prints them.', ''])


def _levels(suite: suite_lib.Suite,
            ours: Mapping[str, suite_lib.Scores]) -> str:
  """Returns a table with a line for each level, and the sums of columns."""
  columns = [*ours.items(), ('human', suite.human),
             ('random', suite.random), *suite.paper.items()]
  rows = [['level', *(name for name, _ in columns),
           *(f'{name}, normalised' for name in ours)]]
  for level in suite.levels:
    rows.append([
        level.partition('/')[2],
        *(_score(column, level, suite.decimals) for _, column in columns),
        *(_normalised(suite, scores, level) for scores in ours.values())])
  summaries = [_summary(suite, column) for _, column in columns]
  for name, title in _SUMMARY_ROWS.items():
    rows.append([f'**{title}**', *(s[name] for s in summaries),
                 *('' for _ in ours)])
  return table(rows)


def _sums(suite: suite_lib.Suite,
          ours: Mapping[str, suite_lib.Scores]) -> str:
  """Returns a table of sums with a line for each agent."""
  rows = [['human-normalised', *(title.replace('human-normalised ', '')
                                 for title in _SUMMARY_ROWS.values())]]
  for name, scores in ours.items():
    rows.append([f'**{name}**', *_summary(suite, scores).values()])
  for agent, sums in suite.published.items():
    rows.append([agent, *(_percent(sums[name]) if name in sums else _MISSING
                          for name in _SUMMARY_ROWS)])
  return table(rows)


def _score(column: suite_lib.Scores, level: str, decimals: int) -> str:
  return f'{column[level]:.{decimals}f}' if level in column else _MISSING


def _normalised(suite: suite_lib.Suite, scores: suite_lib.Scores,
                level: str) -> str:
  if level not in scores:
    return _MISSING
  return _percent(suite.human_normalised_score(level, scores[level]))


def _percent(fraction: float) -> str:
  return f'{fraction:.1%}'


def _summary(suite: suite_lib.Suite, column: suite_lib.Scores) -> dict:
  if len(column) < len(suite.levels):
    return dict.fromkeys(_SUMMARY_ROWS, _MISSING)
  return {name: _percent(value)
          for name, value in suite.summary(column)._asdict().items()}
