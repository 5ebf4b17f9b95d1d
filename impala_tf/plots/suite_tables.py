"""Tables of a suite's scores beside the paper's."""

from typing import Mapping, Optional, Sequence

from impala_tf.suites import suite as suite_lib

_MISSING = '–'
# Rows under the levels, as tables 3 and 4 have them.
_SUMMARY_ROWS = {
    'median': 'human-normalised median',
    'mean': 'human-normalised mean',
    'mean_capped': 'human-normalised mean, capped at 100%',
}


def cell(value: Optional[float], form: str = ',.2f') -> str:
  """Returns a number as text, or a dash for None."""
  return _MISSING if value is None else format(value, form)


def table(rows: Sequence[Sequence[str]], num_names: int = 1) -> str:
  """Returns a Markdown table of rows of cells, the header first.

  The first `num_names` columns are aligned to the left, numbers to the right.
  """
  lines = [f'| {" | ".join(row)} |' for row in rows]
  lines.insert(1, '|' + '---|' * num_names +
               '---:|' * (len(rows[0]) - num_names))
  return '\n'.join(lines)


def markdown(suite: suite_lib.Suite,
             ours: Mapping[str, suite_lib.Scores]) -> str:
  """Returns tables of levels, as B.1 and C.1, and of sums, as 3 and 4.

  Sums over only some levels are missing, since they could not be compared.
  `ours` maps a column's title to mean raw returns on some or all levels.
  """
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
  columns = [*ours.items(), ('human', suite.human),
             ('random', suite.random), *suite.paper.items()]
  normalised = [{level: suite.human_normalised_score(level, score)
                 for level, score in scores.items()}
                for scores in ours.values()]
  rows = [['level', *(name for name, _ in columns),
           *(f'{name}, normalised' for name in ours)]]
  for level in suite.levels:
    rows.append([
        level.partition('/')[2],
        *(cell(column.get(level), f'.{suite.decimals}f')
          for _, column in columns),
        *(cell(column.get(level), '.1%') for column in normalised)])
  sums = [_summary(suite, column) for _, column in columns]
  for name, title in _SUMMARY_ROWS.items():
    rows.append([f'**{title}**', *(cell(s.get(name), '.1%') for s in sums),
                 *('' for _ in ours)])
  return table(rows)


def _sums(suite: suite_lib.Suite,
          ours: Mapping[str, suite_lib.Scores]) -> str:
  rows = [['human-normalised', *(title.replace('human-normalised ', '')
                                 for title in _SUMMARY_ROWS.values())]]
  agents = {f'**{name}**': _summary(suite, scores)
            for name, scores in ours.items()}
  for agent, sums in (*agents.items(), *suite.published.items()):
    rows.append([agent, *(cell(sums.get(name), '.1%')
                          for name in _SUMMARY_ROWS)])
  return table(rows)


def _summary(suite: suite_lib.Suite,
             column: suite_lib.Scores) -> Mapping[str, float]:
  if len(column) < len(suite.levels):
    return {}
  return suite.summary(column)._asdict()
