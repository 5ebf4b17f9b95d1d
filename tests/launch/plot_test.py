"""Tests that curves become a PNG with lines in it."""

import json
import sys

import imageio
import numpy as np
import pytest

from launch import plot
from tests.fixtures import programs


def _run_dir(path, *rows):
  path.mkdir()
  (path / 'metrics.jsonl').write_text(
      ''.join(json.dumps(row) + '\n' for row in rows))
  return str(path)


@pytest.fixture
def runs(tmp_path):
  """Makes two runs; the first row of each has no return yet, or none at all."""
  return [_run_dir(tmp_path / name, {'frames': 0, 'secs': 0., 'updates': 0},
                   {'frames': 5, 'secs': 0.5, 'updates': 1,
                    'episode_return': None},
                   *({'frames': 10 * n, 'secs': 1. * n, 'updates': 2 * n,
                      'episode_return': slope * n} for n in range(1, 9)))
          for name, slope in (('up', 1.), ('down', -1.))]


def _plot(monkeypatch, *arguments):
  monkeypatch.setattr(sys, 'argv', ['plot', *map(str, arguments)])
  return plot.main()


def _colours(path):
  """Returns the picture, and its number of colours that are not grey."""
  image = np.asarray(imageio.v2.imread(path))[..., :3]
  assert image.shape == (540, 960, 3)
  pixels = image.reshape(-1, 3)
  strong = pixels[np.ptp(pixels.astype(int), axis=1) > 100]
  return image, len(np.unique(strong // 64, axis=0))


def test_each_run_is_a_line(runs, tmp_path, monkeypatch):
  output = tmp_path / 'curve.png'
  assert _plot(monkeypatch, runs[0], f'--output={output}') == 0
  one, colours = _colours(output)
  assert colours >= 1
  assert _plot(monkeypatch, *runs, f'--output={output}') == 0
  two, more_colours = _colours(output)
  assert more_colours > colours
  assert not np.array_equal(one, two)


def test_other_fields_and_axes(runs, tmp_path, monkeypatch):
  images = []
  for flag in ('--x=frames', '--x=secs', '--metric=updates'):
    output = tmp_path / 'curve.png'
    assert _plot(monkeypatch, runs[0], flag, f'--output={output}') == 0
    images.append(_colours(output)[0].tobytes())
  assert len(set(images)) == 3


def test_directory_without_metrics_is_refused_in_one_line(tmp_path):
  ran = programs.run('launch.plot', tmp_path, cwd=tmp_path)
  assert 'has no episode_return in its metrics.jsonl' in (
      programs.error_line(ran))
  assert not any(tmp_path.iterdir())


@pytest.mark.parametrize('flag, words', [
    ('--metric=nope', 'has no nope in its metrics.jsonl'),
    ('--output=no/such/directory/x.png', 'choose another --output'),
    ('--output=x.nope', 'choose another --output')])
def test_bad_flag_is_refused_in_one_line(
    runs, tmp_path, monkeypatch, capsys, flag, words):
  monkeypatch.chdir(tmp_path)
  assert _plot(monkeypatch, runs[0], flag) == 2
  line, = capsys.readouterr().err.splitlines()
  assert line.startswith('error: ') and words in line
