"""The table of torsos: names that are there, taken or unknown."""

import subprocess
import sys

import pytest

import impala_tf
from impala_tf import config as config_lib
from impala_tf.agents import torsos

pytestmark = pytest.mark.usefixtures('modules_forgotten')


def test_torso_of_ones_own_is_known_once_it_is_registered():
  with pytest.raises(config_lib.ConfigError, match=(
      "torso must be one of shallow, nature, .* but is 'my_torso'")):
    torsos.check('my_torso')

  @impala_tf.register_torso('my_torso')
  class MyTorso:
    pass

  torsos.check('my_torso')
  assert torsos.OWN == {'my_torso': MyTorso}
  with pytest.raises(config_lib.ConfigError, match="did you mean 'my_torso'"):
    torsos.check('my_torsi')


def test_name_that_is_taken_is_refused():
  torsos.register('my_torso')(object)
  for name in ('mlp', 'my_torso'):
    with pytest.raises(config_lib.ConfigError, match=f"'{name}' already"):
      torsos.register(name)


def test_api_that_looks_names_up_imports_no_tensorflow():
  program = ('import sys, impala_tf; '
             'from impala_tf.agents import torsos; '
             'impala_tf.register_torso("a"); impala_tf.register_domain; '
             'impala_tf.register_algorithm; torsos.check("mlp"); '
             'print(hasattr(impala_tf, "nope"), "tensorflow" in sys.modules)')
  ran = subprocess.run([sys.executable, '-c', program], check=True, text=True,
                       capture_output=True)
  assert ran.stdout == 'False False\n'
