"""How busy this process's cores are."""

import pytest

from lab.bench import quiet


@pytest.mark.parametrize('share,load,words', [
    (0.3, 0.1, ['other processes use 30% of 2 cores']),
    (0.3, 1.5, ['30% of 2 cores', 'load average of the last minute is 1.5'])])
def test_busy_machine_is_described(share, load, words):
  assert all(word in quiet.explain(share, load, cores=2) for word in words)
  assert quiet.explain(0.02, 0.4, cores=2) is None
