"""Pictures of runs: one style, axes, bands, and their file.

Every figure begins with `grid` or `panels`, so that all look alike. Those made
by `panels` fit a phone's width, with letters of 9 pixels or more.
"""

import itertools
import math
import os
from typing import Any, Collection, Sequence

from cycler import cycler
import matplotlib
import matplotlib.axes
import matplotlib.figure
import matplotlib.ticker
import numpy as np

from impala_tf import config as config_lib
from impala_tf.plots import intervals
from impala_tf.storage import files

PAGE_WIDTH = 4.6  # Inches. Letters of 10 points stay readable on a phone.
_MAX_COLUMNS = 2  # More panels side by side would be too small there.
# Okabe and Ito 2008, which people of all kinds of colour vision distinguish;
# without yellow, which is too pale for lines.
COLOURS = ('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9',
           '#000000')
_STYLE: dict[Any, Any] = {  # Matplotlib types keys as literals.
    # Lines beyond the seventh have the same colours and are dashed, or dotted.
    'axes.prop_cycle': (cycler(linestyle=['-', '--', ':', '-.']) *
                        cycler(color=COLOURS)),
    'axes.axisbelow': True,
    'axes.grid': True,
    'axes.spines.right': False,
    'axes.spines.top': False,
    'axes.titlesize': 'medium',
    'font.size': 10,
    'grid.alpha': 0.3,
    'legend.fontsize': 'small',
    'legend.frameon': False,
    'lines.linewidth': 1.6,
    'savefig.dpi': 150,
    'xtick.labelsize': 'small',
    'ytick.labelsize': 'small',
}
_X_TITLES = {'frames': 'environment frames', 'updates': 'learner updates'}
_TIMES = {'hours': 3600., 'minutes': 60., 'seconds': 1.}


def formats() -> Sequence[str]:
  """Lists the file endings that a picture may have."""
  return sorted(matplotlib.figure.Figure().canvas.get_supported_filetypes())


def output_path(path: str) -> str:
  """Adds '.png' to a path without ending; raises UserError if unusable."""
  ending = os.path.splitext(path)[1][1:].lower()
  if not ending:
    path += '.png'
  elif ending not in formats():
    raise config_lib.UserError(
        f'--output: pictures cannot be written as .{ending}; choose one of '
        f'{", ".join(formats())}')
  if files.is_url(path):
    raise config_lib.UserError(f'--output must be a path, but is {path}')
  files.check_writable(path, '--output')
  return path


def grid(num_rows: int, num_columns: int, width: float = 3.4,
         height: float = 2.8):
  """Makes a figure with axes [num_rows, num_columns], each sized in inches."""
  matplotlib.rcParams.update(_STYLE)
  # Without pyplot, which may want a display.
  figure = matplotlib.figure.Figure(
      figsize=(width * num_columns, height * num_rows), layout='constrained')
  return figure, figure.subplots(num_rows, num_columns, squeeze=False)


def panels(number: int, height: float = 2.4
           ) -> tuple[matplotlib.figure.Figure, np.ndarray]:
  """Makes a page-wide figure and axes [number], each `height` inches high."""
  num_columns = min(number, _MAX_COLUMNS)
  figure, axes = grid(math.ceil(number / num_columns), num_columns,
                      PAGE_WIDTH / num_columns, height)
  if number < axes.size:  # The last one alone in its row is as wide as the row.
    axes.flat[-1].remove()
    axes.flat[-2].set_subplotspec(axes.flat[-2].get_gridspec()[-1, :])
  return figure, axes.flatten()[:number]


def draw_band(axes: matplotlib.axes.Axes, x: np.ndarray, band: intervals.Band,
              **line: Any) -> None:
  """Draws a line over x, float [P], and its interval as a pale band."""
  drawn, = axes.plot(x, band.centre, **line)
  if band.low is not None and band.high is not None:
    axes.fill_between(x, band.low, band.high, color=drawn.get_color(),
                      alpha=0.2, linewidth=0)


def label_x(axes: matplotlib.axes.Axes, x: str) -> None:
  """Names the horizontal axis, and shortens its numbers: 40M, or 2 hours.

  Everything must be drawn before; single points get a marker, since they have
  no line. `x` is 'frames', 'updates' or 'secs'.
  """
  for line in axes.lines:
    if np.size(line.get_xdata()) == 1:
      line.set_marker('.')
  if x in _X_TITLES:
    axes.set_xlabel(_X_TITLES[x])
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter(sep=''))
    return
  last = axes.get_xlim()[1]
  unit = next((u for u, secs in _TIMES.items() if last > 2 * secs), 'seconds')
  axes.set_xlabel(f'wall time, {unit}')
  # Ticks at whole numbers of the unit.
  locator = matplotlib.ticker.MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10])
  low, high = (limit / _TIMES[unit] for limit in axes.get_xlim())
  ticks = [t for t in locator.tick_values(low, high) if low <= t <= high]
  axes.set_xticks([t * _TIMES[unit] for t in ticks], [f'{t:g}' for t in ticks])


def share_legend(figure: matplotlib.figure.Figure, columns: int = 3,
                 first: Collection[str] = ()) -> None:
  """Puts one legend above all axes, with each label once, `first` ones first.

  It has fewer columns if it would be too wide, and the figure grows by its
  height. All must be drawn before.
  """
  handles = {label: handle for axes in figure.axes for handle, label in zip(
      *axes.get_legend_handles_labels())}
  names = sorted(handles, key=lambda label: label not in first)
  legend = figure.legend([handles[name] for name in names], names,
                         loc='outside upper center', ncols=columns)
  size = legend.get_window_extent()
  if columns > 1 and size.width > figure.bbox.width:
    legend.remove()
    return share_legend(figure, columns - 1, first)
  figure.set_figheight(figure.get_figheight() + size.height / figure.dpi)


def line_styles(labels: Sequence[str]) -> dict:
  """Returns a line colour and dash for each label, the same in all panels."""
  return dict(zip(labels, itertools.cycle(_STYLE['axes.prop_cycle'])))


def save(figure: matplotlib.figure.Figure, path: str) -> None:
  """Writes a figure to a file; raises UserError if it cannot."""
  try:
    figure.savefig(path)
  except (OSError, ValueError) as error:
    raise config_lib.UserError(
        f'cannot write {path}: {error}; choose another --output') from error
