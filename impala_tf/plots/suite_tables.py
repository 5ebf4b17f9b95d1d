"""Tables of a suite's scores beside the paper's."""

from typing import Any, Iterable, Mapping, Sequence

from impala_tf.suites import suite as suite_lib

# Rows under the levels, as tables 3 and 4 have them.
_SUMMARY_ROWS = {
    'median': 'human-normalised median',
    'mean': 'human-normalised mean',
    'mean_capped': 'human-normalised mean, capped at 100%',
}


def _cell(value: Any, form: str) -> str:
  if isinstance(value, str):
    return value
  return '–' if value is None else format(value, form)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]],
          num_names: int = 1, forms: Sequence[str] = ()) -> str:
  """Returns a Markdown table; cells are text, numbers, or None for a dash.

  The first `num_names` columns are aligned to the left, numbers to the right.
  `forms` has the format of each column's numbers.
  """
  forms = forms or [''] * len(header)
  lines = [f'| {" | ".join(map(_cell, row, forms))} |'
           for row in (header, *rows)]
  lines.insert(1, '|' + '---|' * num_names +
               '---:|' * (len(header) - num_names))
  return '\n'.join(lines)


def markdown(suite: suite_lib.Suite,
             ours: Mapping[str, suite_lib.Scores]) -> str:
  """Returns tables like the paper's: of levels (B.1, C.1), of sums (3, 4).

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
  rows = [[level.partition('/')[2],
           *(_cell(column.get(level), f'.{suite.decimals}f')
             for _, column in columns),
           *(column.get(level) for column in normalised)]
          for level in suite.levels]
  sums = [summary(suite, column) for _, column in columns]
  rows += [[f'**{title}**', *(s.get(name) for s in sums), *('' for _ in ours)]
           for name, title in _SUMMARY_ROWS.items()]
  header = ['level', *(name for name, _ in columns),
            *(f'{name}, normalised' for name in ours)]
  return table(header, rows, forms=['.1%'] * len(header))


def _sums(suite: suite_lib.Suite, ours: Mapping[str, suite_lib.Scores]) -> str:
  header = ['human-normalised', *(title.replace('human-normalised ', '')
                                  for title in _SUMMARY_ROWS.values())]
  agents = {f'**{name}**': summary(suite, scores)
            for name, scores in ours.items()}
  return table(header, [
      (agent, *map(sums.get, _SUMMARY_ROWS))
      for agent, sums in (*agents.items(), *suite.published.items())],
               forms=['.1%'] * len(header))


def summary(suite: suite_lib.Suite,
            column: suite_lib.Scores) -> Mapping[str, float]:
  """Returns a suite's median and means by name; empty if a score is missing."""
  if len(column) < len(suite.levels):
    return {}
  return suite.summary(column)._asdict()
