"""Tests that curves become a PNG with lines in it."""

import csv
import shutil

import imageio
import numpy as np
import pytest

from impala_tf import config as config_lib
from impala_tf.cli import plot
from impala_tf.runs import gin_config
from tests.fixtures import sweep_results


def _run_dir(path, *rows):
  return str(sweep_results.write_metrics(path, rows))


@pytest.fixture
def runs(tmp_path):
  """Makes two runs; the first row of each has no return yet, or none at all."""
  return [_run_dir(tmp_path / name, {'frames': 0, 'secs': 0., 'updates': 0},
                   {'frames': 5, 'secs': 0.5, 'updates': 1,
                    'episode_return': None},
                   *({'frames': 10 * n, 'secs': 1. * n, 'updates': 2 * n,
                      'episode_return': slope * n * n} for n in range(1, 9)))
          for name, slope in (('up', 1.), ('down', -1.))]


def _colours(path):
  """Returns the picture, and its number of colours that are not grey."""
  image = np.asarray(imageio.v2.imread(path))[..., :3]
  assert image.shape == (543, 690, 3)
  pixels = image.reshape(-1, 3)
  strong = pixels[np.ptp(pixels.astype(int), axis=1) > 100]
  return image, len(np.unique(strong // 64, axis=0))


def test_each_run_is_a_line(runs, tmp_path, call):
  output = tmp_path / 'curve.png'
  assert call(plot.main, runs[0], f'--output={output}') == 0
  one, colours = _colours(output)
  assert call(plot.main, *runs, f'--output={output}') == 0
  two, more_colours = _colours(output)
  assert more_colours > colours >= 1
  assert not np.array_equal(one, two)


def _rows_of_csv(path):
  """Returns the points of each label: x, y, low, high as text."""
  found = {}
  with open(path, encoding='utf-8') as file:
    for line in csv.DictReader(file):
      found.setdefault((line['label'], line['runs']), []).append(
          [line[name] for name in ('x', 'y', 'low', 'high')])
  return found


def test_csv_holds_what_is_drawn_of_single_runs(runs, tmp_path, call):
  drawn = tmp_path / 'drawn.csv'
  assert call(plot.main, *runs, runs[0], '--x=updates', '--smooth=3',
               f'--output={tmp_path / "x.png"}', f'--csv={drawn}') == 0
  points = _rows_of_csv(drawn)
  assert list(points) == [('up', '1'), ('down', '1')]  # Each once.
  # Means of three on a parabola are 2/3 above it.
  assert [[float(v) for v in p[:2]] for p in points['down', '1']] == [
      [2 * n, -n * n - (2 / 3 if 1 < n < 8 else 0)] for n in range(1, 9)]
  assert {tuple(p[2:]) for p in points['up', '1']} == {('', '')}


def test_pattern_of_seeds_is_one_curve_with_an_interval(tmp_path, call, capsys):
  for seed in (1, 2, 3, 10):
    run_dir = tmp_path / f'seed_{seed}'
    _run_dir(run_dir, *({'frames': x, 'episode_return': float(x * seed)}
                        for x in (0, 100)))
    (run_dir / 'config.gin').write_text(gin_config.dumps(config_lib.Config(
        experiment=config_lib.ExperimentConfig(seed=seed))))
  (tmp_path / 'seed_1.failed').write_text('Of a member of a population.')
  (tmp_path / 'seed_4').mkdir()  # Has just begun.
  shutil.copy(run_dir / 'config.gin', tmp_path / 'seed_4')
  drawn = tmp_path / 'drawn.csv'
  assert call(plot.main, tmp_path / 'seed_*', '--group_by=seed',
               '--statistic=iqm', '--confidence=0.5',
               f'--output={tmp_path / "x"}', f'--csv={drawn}') == 0
  # It says the name that it wrote.
  assert f'wrote {tmp_path / "x.png"} and {drawn}' in capsys.readouterr().out
  assert (tmp_path / 'x.png').exists()
  (curve, points), = _rows_of_csv(drawn).items()
  assert curve == ('atari/pong', '4')
  assert [float(v) for v in points[-1]] == [100, 250, 200, 550]


@pytest.mark.parametrize('arguments, words', [
    (['--metric=episode_retrun'], 'did you mean episode_return?'),
    (['--output=x.nope'], 'pictures cannot be written as .nope; choose one of'),
    (['--csv=/proc/no/x.csv'], 'choose another --csv'),
    (['--output=gs://b/x.png'], 'must be a path, but is gs://b/x.png'),
    (['--group_by=sed'], 'did you mean seed?'),
    (['--group_by=seed'], 'config.gin, which says how to group'),
    (['--confidence=1'], '--confidence must be'),
    (['no/such/run'], 'there is no run no/such/run'),
    (['empty'], 'empty: no row of metrics.jsonl has episode_return and fr')])
def test_bad_flag_is_refused_in_one_line(
    runs, tmp_path, monkeypatch, refused, arguments, words):
  work = tmp_path / 'work'
  (work / 'empty').mkdir(parents=True)
  monkeypatch.chdir(work)
  assert words in refused(plot.main, runs[0], *arguments)
  assert [p.name for p in work.iterdir()] == ['empty']
