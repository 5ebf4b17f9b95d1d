"""Files of a run behave alike on a disk and behind URLs."""

import threading

import pytest

from impala_tf import config as config_lib
from impala_tf.storage import files
from tests.fixtures import full_disk
from tests.fixtures import programs

KINDS = ('path', 'file', 'ram')


@pytest.fixture(params=KINDS, name='base')
def _base(request, tmp_path):
  """Returns a directory that does not exist; only TensorFlow sees ram://."""
  return {'path': '', 'file': 'file://', 'ram': 'ram:/'}[request.param] + str(
      tmp_path / 'a' / 'b')


def test_file_comes_back_and_is_replaced(base):
  path = f'{base}/x'
  files.check_writable(path, '--f')
  assert files.exists(base) and files.names(base) == []
  for content in (b'', b'one\n', b'\x00\xff' * 100_000, b'two'):
    files.write(path, content)
    assert files.read(path) == content
  assert files.exists(path) and files.names(base) == ['x']


def test_names_are_of_files_and_directories_until_they_are_removed(base):
  if files.is_url(base):
    files.reach(base, 60.)  # It need not exist.
  assert files.names(base) == [] and not files.exists(base)
  files.make_directory(f'{base}/sub/below')
  files.write(f'{base}/sub/file', b'')
  files.write(f'{base}/.hidden', b'')
  assert files.names(base) == ['.hidden', 'sub']
  assert files.names(f'{base}/sub') == ['below', 'file']
  files.make_directory(base)  # It may be there.
  files.remove(f'{base}/.hidden')
  assert files.names(base) == ['sub']
  files.remove(f'{base}/sub')  # With all in it.
  assert files.names(base) == [] and not files.exists(f'{base}/sub/file')


def test_what_is_not_there_says_so(base):
  with pytest.raises(FileNotFoundError) as raised:
    files.read(f'{base}/x')
  assert raised.value.strerror and '\n' not in raised.value.strerror


@pytest.mark.parametrize('path, cause', [
    ('{}', 'regular'), ('{}/x/x', 'Not a direct'),
    ('{}/x/no/x', 'Not a direct'), ('file://{}/x/x', 'Not a direct'),
    ('/dev/null', 'regular'), ('/proc/no/x', 'No such file')])
def test_path_that_cannot_be_written_is_refused(tmp_path, path, cause):
  for name in ('x', 'x.new'):  # The second is another process's.
    (tmp_path / name).write_text('as it was')
  with pytest.raises(config_lib.UserError, match=f'not be written .*{cause}.*'):
    files.check_writable(path.format(tmp_path), '--f')
  files.check_writable(str(tmp_path / 'x'), '--f')
  assert [p.read_text() for p in tmp_path.iterdir()] == 2 * ['as it was']


@pytest.mark.parametrize('scheme', ['', 'file://'])
def test_file_that_has_no_room_leaves_the_old_one(tmp_path, scheme):
  path = f'{scheme}{tmp_path}/x'
  files.write(path, b'old')
  with full_disk.largest_file(100), pytest.raises(OSError):
    files.write(path, bytes(1_000_000))
  assert files.read(path) == b'old'
  assert scheme or [p.name for p in tmp_path.iterdir()] == ['x']


@pytest.mark.parametrize('path, is_url, needs_network', [
    ('/a/b', False, False), ('', False, False), ('a b://c', False, False),
    ('file:///a', True, False), ('gs://a/b', True, True)])
def test_url_is_no_path(path, is_url, needs_network):
  assert files.is_url(path) == is_url
  assert files.needs_network(path) == needs_network


@pytest.mark.parametrize('url, words', [
    ('nosuch://a/b', r'opens .*file://.* but not nosuch://; install'),
    ('file://tmp/a', 'file:///a/b')])
def test_what_tensorflow_does_not_open_is_said_at_once(url, words):
  with pytest.raises(files.RemoteError, match=words) as raised:
    files.reach(url, 60.)
  assert '\n' not in str(raised.value)


def test_store_that_is_silent_or_refuses_is_an_error_with_a_remedy(monkeypatch):
  never = threading.Event()

  def fail(path):
    raise files.RemoteError(5, 'permission denied')

  for exists, words in ((lambda path: never.wait(60.), 'no answer within 0 s'),
                        (fail, '^permission denied')):
    monkeypatch.setattr(files, 'exists', exists)
    with pytest.raises(files.RemoteError, match=f'{words}; check its name'):
      files.reach('ram://a', 0.1)
  never.set()


@pytest.mark.timeout(400)
def test_nobody_waits_for_tensorflow_but_for_urls(tmp_path):
  program = """
import os, sys
from impala_tf.storage import files, line_log
from impala_tf.runs import metrics
from impala_tf.cli import evaluate, plot, train
from impala_tf.runs import progress, run_directory
run_directory.reach(sys.argv[1])
files.write(sys.argv[1] + '/x', b'1')
progress.NewestRow(sys.argv[1])
print('tensorflow' in sys.modules)
files.exists('file://' + sys.argv[1])
print('tensorflow' in sys.modules, flush=True)
os._exit(0)
"""
  with programs.running('-c', program, tmp_path) as process:
    output, errors = process.communicate(timeout=300)
  assert output.split() == ['False', 'True'], errors
