"""The table of algorithms names modules that have what it promises."""

import subprocess
import sys

import pytest

from impala_tf import config as config_lib
from impala_tf.algorithms import algorithm
from impala_tf.algorithms import table


@pytest.mark.parametrize('name', table.ROWS)
def test_row_is_an_algorithm(name):
  table.check(name)
  assert isinstance(table.get(name), algorithm.Algorithm)


@pytest.mark.parametrize('use', [table.check, table.get])
def test_name_that_is_not_there_is_refused(use):
  with pytest.raises(config_lib.ConfigError, match=(
      "algorithm must be one of impala, .* but is 'impalla'")):
    use('impalla')


def test_looking_a_name_up_imports_no_tensorflow():
  program = ('import sys; from impala_tf.algorithms import table; '
             'table.check("impala"); print("tensorflow" in sys.modules)')
  ran = subprocess.run([sys.executable, '-c', program], check=True, text=True,
                       capture_output=True)
  assert ran.stdout == 'False\n'
