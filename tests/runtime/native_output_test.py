"""What is written to the descriptor of standard error goes to a file."""

from tests.fixtures import programs

_PROGRAM = """
import os, sys
from impala_tf.runtime import native_output
try:
  with native_output.redirected(sys.argv[1]):
    os.write(2, b'of a library\\n')
    print('of Python', file=sys.stderr)
    raise KeyError('lost')
except KeyError:
  os.write(2, b'again\\n')
  print('also', file=sys.stderr)
"""


def test_python_alone_stays_on_the_terminal(tmp_path):
  path = tmp_path / 'logs' / 'learner.log'
  for _ in range(2):
    with programs.running('-c', _PROGRAM, str(path)) as process:
      output, errors = process.communicate(timeout=programs.DEADLINE_SECS)
    assert (output, errors) == ('', 'of Python\nagain\nalso\n')
  assert path.read_text() == 2 * 'of a library\n'
