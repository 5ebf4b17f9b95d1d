"""Inputs of exported updates, drawn and cut anew, and their table."""

import numpy as np
import pytest

from lab.gpu_step import run


def test_shorter_unrolls_are_pieces_of_the_recorded_ones():
  steps, unrolls = run.RECORDED_STEPS + 1, run.RECORDED_UNROLLS
  array = np.arange(steps)[:, np.newaxis] + 1000 * np.arange(unrolls)
  short = run.cut(array, 20, 2 * unrolls)
  assert short.shape == (21, 2 * unrolls)
  np.testing.assert_array_equal(short[:, 5], 5000 + np.arange(21))
  # The next piece begins with the step that ends the first.
  np.testing.assert_array_equal(short[:, unrolls + 5], 5020 + np.arange(21))
  np.testing.assert_array_equal(run.cut(array, 100, 7), array[:, :7])


def test_frames_are_cut_with_the_stack_before_their_first_step():
  frames = np.arange(run.RECORDED_STEPS + 4)[:, np.newaxis]
  assert run.cut(frames, 20, 2)[:, 1].tolist() == list(range(20, 44))


@pytest.mark.parametrize('entry, first', [
    ({'shape': [2, 3], 'dtype': 'float32', 'fill': 1.5}, 1.5),
    # RandomState is frozen: this is its first draw with seed 7, times 2.
    ({'shape': [2, 3], 'dtype': 'float32', 'std': 2.}, 2 * 1.690525703800356)])
def test_variables_are_drawn_alike_everywhere(entry, first):
  value = run.draw(entry, 7)
  assert value.dtype == np.float32 and value.shape == (2, 3)
  assert value.flat[0] == np.float32(first)
  np.testing.assert_array_equal(value, run.draw(entry, 7))
