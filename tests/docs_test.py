"""Tests of the documents: their links, their length, and their commands.

Blocks are run if they are marked `sh` and `python` in README.md and the
tutorial, or `bash` in the pages on examples/. They run in order and in one
directory, as a reader would run them, only shorter; a report's code in full.
"""

import ast
import pathlib
import re
import shlex
import subprocess
import sys
import threading

import pytest
import yaml

import impala_tf
from impala_tf.runs import gin_config
from impala_tf.runs import metrics
from tests.fixtures import programs

_ROOT = programs.ROOT
_PAGES = ('README.md', *sorted(
    str(path.relative_to(_ROOT)) for path in (_ROOT / 'docs').glob('*.md')))
_REPORTS = sorted(str(path.relative_to(_ROOT))
                  for path in (_ROOT / 'lab' / 'reports').glob('*.md'))
_DEADLINE_SECS = 300


def _text(page):
  return (_ROOT / page).read_text()


def _blocks(page, *languages):
  """Lists (language, text) of the page's blocks in these languages."""
  found = re.findall(r'^```(\w*)\n(.*?)^```$', _text(page), re.M | re.S)
  return [block for block in found if block[0] in languages]


def _anchors(page):
  """Returns the anchors of a page's headings, as GitHub makes them."""
  return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
          for heading in re.findall(r'^#+ (.*)$', _text(page), re.M)}


@pytest.mark.parametrize('page', [*_PAGES, *_REPORTS])
def test_links_lead_somewhere(page):
  for link in re.findall(r'\]\(([^)\s]+)\)', _text(page)):
    path, _, anchor = link.partition('#')
    if '://' in path:
      continue
    target = ((_ROOT / page).parent / path).resolve() if path else _ROOT / page
    assert target.exists(), f'{page}: {link}'
    if anchor:
      assert anchor in _anchors(target.relative_to(_ROOT)), f'{page}: {link}'


def _names(path):
  """Lists what a source file defines at its top, such as a class."""
  names = set()
  for node in ast.parse(path.read_text()).body:
    targets = getattr(node, 'targets', [getattr(node, 'target', node)])
    names.update(getattr(target, 'name', getattr(target, 'id', None))
                 for target in targets)
  return names


@pytest.mark.parametrize('page', _PAGES)
def test_links_to_code_name_what_is_there(page):
  links = re.findall(r'\[`(\w+)\.(\w+)`\]\s*\(\.\./([\w/]+\.py)\)', _text(page))
  for module, name, path in links:
    assert pathlib.Path(path).stem == module
    assert name in _names(_ROOT / path), f'{page}: {module}.{name}'


def test_documents_are_short():
  assert len(_text('README.md').splitlines()) <= 200
  assert sum(len(_text(page).splitlines()) for page in _PAGES[1:]) <= 3000


def test_site_has_every_page():
  nav = str(yaml.safe_load(_text('mkdocs.yml'))['nav'])
  for page in _PAGES[1:]:
    assert pathlib.Path(page).name in nav


@pytest.mark.slow
def test_site_is_built_without_warnings(tmp_path):
  pytest.importorskip('mkdocs')
  built = programs.run('mkdocs', 'build', '--site-dir', tmp_path,
                       timeout=_DEADLINE_SECS)
  assert built.returncode == 0 and 'WARNING' not in built.stderr, built.stderr
  assert (tmp_path / 'tutorial' / 'index.html').exists()
  # Tables that fit and buttons that copy; mkdocs does not check their paths.
  page = (tmp_path / 'index.html').read_text()
  for name in ('site.css', 'site.js'):
    assert f'"{name}"' in page and (tmp_path / name).exists()


@pytest.mark.parametrize('page', _PAGES)
def test_scripts_and_configs_that_are_named_exist(page):
  named = re.findall(
      r'\b((?:launch|configs|examples|lab)/[\w/]+\.(?:sh|gin|py|yaml|md)'
      r'|testdata/[\w./]*\w(?![\w*{./]))', _text(page))
  assert [path for path in named if not (_ROOT / path).exists()] == []


@pytest.mark.parametrize('page', _PAGES)
def test_gin_files_that_are_shown_can_be_loaded(page, tmp_path):
  for _, text in _blocks(page, 'gin'):
    path = tmp_path / 'shown.gin'
    path.write_text(text)
    (gin_config.load_sweep if 'SweepConfig' in text
     else gin_config.load)(str(path))


def _shortened(command):
  """Returns the words of a command, with less to do."""
  words = shlex.split(command, comments=True)
  script = pathlib.Path(words[0]).name
  if script == 'train.sh':  # Enough for all its parts to do something.
    words.append('--gin_binding=ExperimentConfig.total_frames = 3000')
  if script == 'test.sh':
    words.append('--help')  # It would run this test.
  if script == 'tensorboard.sh':
    words.append('--port=0')
  return [re.sub(r'^--episodes=\d+$', '--episodes=1', w) for w in words]


def _run(words, directory):
  process = subprocess.Popen(
      words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT, text=True)
  try:
    if 'tensorboard.sh' in words[0]:  # Serves until it is stopped.
      deadline = threading.Timer(_DEADLINE_SECS, process.kill)
      deadline.start()
      serves = any('http://' in line for line in process.stdout)
      deadline.cancel()
      assert serves, f'{shlex.join(words)} does not serve'
      return None
    output, _ = process.communicate(timeout=_DEADLINE_SECS)
    assert process.returncode == 0, f'{shlex.join(words)}\n{output}'
    return output
  finally:
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize('page, languages', [
    ('README.md', ('sh', 'python')), ('docs/tutorial.md', ('sh', 'python')),
    ('docs/own_environment.md', ('bash',)),
    ('docs/networks_and_algorithms.md', ('bash',))])
def test_commands_of_the_pages_run(page, languages, tmp_path):
  for name in ('launch', 'configs', 'examples', 'testdata'):
    (tmp_path / name).symlink_to(_ROOT / name)
  for language, text in _blocks(page, *languages):
    if language == 'python':
      _run([sys.executable, '-c', text], tmp_path)
      continue
    for command in text.replace('\\\n', ' ').splitlines():
      _run(_shortened(command), tmp_path)


def test_tables_of_a_report_have_the_rows_that_its_code_prints():
  page = 'lab/reports/pong.md'
  for _, code in _blocks(page, 'python'):
    rows = _run([sys.executable, '-c', code], _ROOT)
    assert rows and not [r for r in rows.splitlines() if r not in _text(page)]


def _named_columns():
  """Returns a pattern of the columns in the first cells of metrics.md."""
  cells = re.findall(r'^\| (`[^|]*) \|', _text('docs/metrics.md'), re.M)
  names = re.findall(r'`([^`]+)`', ' '.join(cells))
  # <column> is one of the others, which stand before or after it.
  plain = '|'.join(re.escape(name) for name in names if '<' not in name)
  return re.compile('|'.join([plain, *(
      '.*'.join(map(re.escape, re.split('<[a-z]+>', name)))
      for name in names if '<' in name)]))


@pytest.mark.slow
@pytest.mark.parametrize('config, bindings', [
    ('tasks/catch_two_scales', {}),
    ('laser/catch_delayed', {}),
    ('a3c/catch', {}),
    ('a3c/one_step_q', {'EnvironmentConfig.level': 'catch',
                        'AgentConfig.torso': 'mlp'})])
def test_every_logged_column_has_an_entry(config, bindings, tmp_path):
  impala_tf.train(
      f'configs/{config}.gin', str(tmp_path), in_process=True,
      bindings={**bindings, 'ExperimentConfig.total_frames': 5000})
  columns = {name for row in metrics.read_rows(str(tmp_path)) for name in row}
  pattern = _named_columns()
  assert 'frames_per_sec' in columns
  assert not [name for name in columns if not pattern.fullmatch(name)]
