"""Results of a sweep's runs, and their statistics for tables and figures.

No files: rows and text in, text out.
"""

import ast
import csv
import io
import itertools
import statistics
from typing import Any, Mapping, NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.sweeps import plan as plan_lib

# The final return is the mean over this share of a run's frames, its last ones.
_FINAL_SHARE = 0.1

# A run's status. The next call of the sweep resumes an interrupted run.
FINISHED, FAILED, INTERRUPTED = 'finished', 'failed', 'interrupted'


class Result(NamedTuple):
  """The result of a run; unknown numbers are None.

  The final return is the mean `episode_return` of the rows of `metrics.jsonl`
  within the last tenth of the run's frames. Each is a mean of the last 100
  episodes, or of all if the run has had fewer. The area is that under the curve
  of `episode_return` over frames, divided by the frames it spans: a mean return
  over the whole of training.
  """
  run: plan_lib.Run
  status: str  # FINISHED, FAILED or INTERRUPTED.
  error: str = ''  # Cause of a failure in one line.
  frames: int | None = None  # Environment frames that were learned from.
  secs: float | None = None  # Wall time of training, without interruptions.
  final_return: float | None = None
  best_return: float | None = None  # Highest mean of 100 full episodes.
  area: float | None = None
  updates: int | None = None


def result(run: plan_lib.Run, status: str, error: str,
           rows: Sequence[Mapping[str, Any]]) -> Result:
  """Makes the result of a run from the rows of its metrics, oldest first."""
  if not rows:
    return Result(run, status, error)
  last = rows[-1]
  return Result(run, status, error, last['frames'], last['secs'],
                final_return(rows), last.get('best_episode_return'),
                _mean_height(_curve(rows)), last.get('updates'))


def final_return(rows: Sequence[Mapping[str, Any]]) -> float | None:
  """Returns a run's final return, see `Result`, from its rows."""
  final = [y for x, y in _curve(rows)
           if x > (1 - _FINAL_SHARE) * rows[-1]['frames']]
  return statistics.fmean(final) if final else None


def _curve(rows: Sequence[Mapping[str, Any]]) -> list[tuple]:
  return [(row['frames'], row['episode_return']) for row in rows
          if row.get('episode_return') is not None]


def _mean_height(curve: Sequence[tuple]) -> float | None:
  if len(curve) < 2:
    return curve[0][1] if curve else None
  area = sum((x - x0) * (y + y0) / 2
             for (x0, y0), (x, y) in zip(curve, curve[1:]))
  return area / (curve[-1][0] - curve[0][0])


def select(results: Sequence[Result], task: str, variant: str) -> list[Result]:
  """Selects the results of one task and variant."""
  return [r for r in results if (r.run.task, r.run.variant) == (task, variant)]


def seed_returns(results: Sequence[Result]) -> dict[str, list[float]]:
  """Groups a task's and variant's final returns by setting, one for each seed.

  Only finished runs count, and settings without one are left out.
  """
  returns: dict[str, list[float]] = {}
  for r in results:
    if r.status == FINISHED and r.final_return is not None:
      returns.setdefault(r.run.setting, []).append(r.final_return)
  return returns


def setting_returns(results: Sequence[Result]) -> dict[str, float]:
  """Averages `seed_returns` by setting, best first (appendix E.2)."""
  means = {name: statistics.fmean(values)
           for name, values in seed_returns(results).items()}
  return dict(sorted(means.items(), key=lambda item: -item[1]))


def best_mean(results: Sequence[Result], num_settings: int | None
              ) -> float | None:
  """Averages final returns over the best settings, as table 2 does.

  Returns of a setting are averaged over its seeds first. The mean over all
  (None) is the area under the ranked returns, as in figure E.4. Without a
  finished run it is None.
  """
  best = list(setting_returns(results).values())[:num_settings]
  return statistics.fmean(best) if best else None


_NUMBERS = ('frames', 'secs', 'final_return', 'best_return', 'area', 'updates')
_COLUMNS = ('task', 'variant', 'setting', 'seed', 'status', *_NUMBERS, 'error')


def to_csv(results: Sequence[Result]) -> str:
  """Returns the results as CSV, with one line for each run.

  The last columns are its bindings, with values as Python writes them.
  """
  names = dict.fromkeys(itertools.chain(*(r.run.bindings for r in results)))
  lines: list[Sequence[Any]] = [[*_COLUMNS, *names]]
  for r in results:
    bindings = r.run.bindings
    values = {**r.run._asdict(), **r._asdict()}
    lines.append([
        *(values[name] for name in _COLUMNS),
        *(repr(bindings[name]) if name in bindings else '' for name in names)])
  return as_csv(lines)


def as_csv(rows: Sequence[Sequence[Any]]) -> str:
  """Returns rows as CSV; None becomes an empty cell."""
  text = io.StringIO()
  csv.writer(text, lineterminator='\n').writerows(rows)
  return text.getvalue()


def from_csv(text: str) -> list[Result]:
  """Reads a table of `to_csv`; raises ConfigError for an unreadable line."""
  found = []
  for line in csv.DictReader(io.StringIO(text)):
    try:
      bindings = {name: ast.literal_eval(value) for name, value in line.items()
                  if name not in _COLUMNS and value}
      run = plan_lib.Run(line['task'], line['variant'], line['setting'],
                         int(line['seed']), bindings)
      # Older tables have no updates.
      values = {name: ast.literal_eval(line[name]) for name in _NUMBERS
                if line.get(name)}
      found.append(Result(run, line['status'], line['error'], **values))
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
      raise config_lib.ConfigError(
          f'run {len(found) + 1}: {error!r}') from error
  return found
