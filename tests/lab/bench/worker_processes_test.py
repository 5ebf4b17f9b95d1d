"""Tests of A3C by the number of its processes: input, and sums."""

import pytest

from lab.bench import worker_processes


@pytest.mark.parametrize('arguments, words', [
    (['configs/catch.gin'], "the algorithm 'impala', which has no workers"),
    (['--rounds=0'], '--rounds and --seconds must be above 0'),
    (['--processes=1,'], '--processes must be different numbers'),
    (['--processes=2,2'], '--processes must be different numbers'),
    (['--processes=0,1'], '--processes must be different numbers')])
def test_bad_input_is_refused_before_anything_starts(
    refused, arguments, words):
  assert words in refused(worker_processes.main, *arguments)
