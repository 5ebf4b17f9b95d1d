"""Options of a population that cannot work are refused."""

import pytest

from impala_tf import config


@pytest.mark.parametrize('fields, words', [
    ({'members': 'a'}, 'two or more different names'),
    ({'members': 'a,b,a'}, 'two or more different names'),
    ({'members': 'a,../b'}, 'two or more different names'),
    ({'adapted': 'learning_rate,decay'}, "names 'decay'")])
def test_impossible_options_are_refused(fields, words):
  with pytest.raises(config.ConfigError, match=words):
    config.PopulationConfig(**fields)
