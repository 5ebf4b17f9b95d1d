"""Statistics of several runs: means, bootstrap intervals, smoothing.

Pure functions of NumPy arrays. Shapes: N runs, P points of a curve.
"""

from typing import Callable, NamedTuple, Sequence

import numpy as np

RESAMPLES = 2000  # Of curves.
# More for a single number, whose interval is printed to two digits or three.
RESAMPLES_OF_A_NUMBER = 20_000
_AT_A_TIME = 100  # Resamples that are in memory together.

Statistic = Callable[[np.ndarray], np.ndarray]


def mean(values: np.ndarray) -> np.ndarray:
  """Computes means over runs: [..., N, P] to [..., P]."""
  return values.mean(axis=-2)


def interquartile_mean(values: np.ndarray) -> np.ndarray:
  """Computes means of the middle half of the runs: [..., N, P] to [..., P].

  The lowest and the highest quarter of the N values, rounded down, are left out
  (Agarwal et al. 2021, section 4.3).
  """
  from scipy import stats  # Here, since it takes a second.
  return stats.trim_mean(values, 0.25, axis=-2)


STATISTICS = {'mean': mean, 'iqm': interquartile_mean}


class Band(NamedTuple):
  """A curve of several runs with its confidence interval, each float [P]."""
  centre: np.ndarray  # The statistic of all runs.
  low: np.ndarray | None  # None without an interval.
  high: np.ndarray | None


def band(values: np.ndarray, strata: Sequence[str], statistic: Statistic,
         confidence: float | None) -> Band:
  """Computes a statistic with a percentile bootstrap interval at each point.

  Runs are drawn with replacement, whole curves at a time, and from each stratum
  as many as it has (stratified bootstrap, Agarwal et al. 2021, appendix A).

  `values` are float [N, P], and `strata` name each run's stratum, such as its
  task. The interval has the share `confidence` of the resamples; there is none
  if that is None, or if no stratum has two runs.
  """
  members = _members(strata)
  centre = statistic(values)
  if confidence is None or max(map(len, members)) < 2:
    return Band(centre, None, None)
  rng = np.random.default_rng(0)
  resampled = []
  total = RESAMPLES if values.shape[1] > 1 else RESAMPLES_OF_A_NUMBER
  for start in range(0, total, _AT_A_TIME):
    number = min(_AT_A_TIME, total - start)
    drawn = np.concatenate(
        [rng.choice(runs, (number, len(runs))) for runs in members], axis=1)
    resampled.append(statistic(values[drawn]))
  tail = (1 - confidence) / 2
  low, high = np.quantile(np.concatenate(resampled), [tail, 1 - tail], axis=0)
  return Band(centre, low, high)


def t_band(values: np.ndarray, strata: Sequence[str],
           confidence: float) -> Band:
  """Computes the mean of the strata's means with Welch's t interval.

  For few runs, the bootstrap of `band` is too narrow. Of six strata with three
  normal runs each, its 95 % cover 85 %, and this interval 96 %. If runs either
  learn or fail, both cover less, since three equal results look certain.
  Degrees of freedom: Satterthwaite 1946.

  Arguments are those of `band`; `confidence` is the share of intervals that
  cover the mean. There is no interval if a stratum has only one run.
  """
  members = _members(strata)
  centre = np.mean([values[runs].mean(axis=0) for runs in members], axis=0)
  sizes = np.array([[len(runs)] for runs in members])
  if sizes.min() < 2:
    return Band(centre, None, None)
  # Variances of the strata's means, each weighted as in the mean of all;
  # float [number of strata, P].
  variances = np.array([values[runs].var(axis=0, ddof=1) for runs in members]
                       ) / sizes / len(members)**2
  variance = variances.sum(axis=0)
  # Without variance the interval is a point, whatever the degrees of freedom.
  degrees = np.where(variance > 0, variance, 1)**2 / np.where(
      variance > 0, (variances**2 / (sizes - 1)).sum(axis=0), 1)
  from scipy import stats  # Here, since it takes a second.
  half = stats.t.ppf((1 + confidence) / 2, degrees) * np.sqrt(variance)
  return Band(centre, centre - half, centre + half)


def _members(strata: Sequence[str]) -> list[np.ndarray]:
  return [np.flatnonzero([s == stratum for s in strata])
          for stratum in dict.fromkeys(strata)]


def smoothed(values: np.ndarray, num_points: int) -> np.ndarray:
  """Computes centred running means of a curve, float [P].

  Near an end the window is shorter on both sides. An even `num_points` counts
  as the next odd number.
  """
  i = np.arange(len(values))
  half = np.minimum(np.minimum(i, i[::-1]), num_points // 2)
  sums = np.concatenate([[0.], np.cumsum(values, dtype=np.float64)])
  return (sums[i + half + 1] - sums[i - half]) / (2 * half + 1)


def on_common_axis(curves: Sequence[Sequence[tuple[float, float]]],
                   num_points: int) -> tuple[np.ndarray, np.ndarray]:
  """Interpolates N curves at P points of the x range that all of them share.

  Curves are points (x, y) in the order of x. Returns x float [P] and y float
  [N, P]; P is 1 if the curves have one x in common, and 0 if they have none.
  """
  arrays = [np.array(points, dtype=np.float64).T for points in curves]
  low = max(x[0] for x, _ in arrays)
  high = min(x[-1] for x, _ in arrays)
  num_points = num_points if low < high else int(low == high)
  x = np.linspace(low, high, num_points)
  return x, np.array([np.interp(x, *array) for array in arrays])
