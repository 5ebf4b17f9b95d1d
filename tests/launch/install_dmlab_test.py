"""Tests of launch/install_dmlab.sh, with stand-ins for apt, sudo and Python.

What it builds is tested in tests/launch/dmlab_build/. With IMPALA_TF_LAB_SOURCE
set to a directory of Lab's sources, the real one is built (minutes of CPU),
played and installed anew.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_LAUNCH = _ROOT / 'launch'
_PACKAGES = re.search(r'PACKAGES=\((.*?)\)', (
    _LAUNCH / 'install_dmlab.sh').read_text(), re.S)[1].split()
_PROGRAMS = {
    # Installed packages are files in a directory, with the packages' names.
    'dpkg-query': '[[ -e "$INSTALLED/${!#}" ]] && echo installed',
    'apt-get': '''echo "$*" >> "$INSTALLED.calls"
[[ "$1" == update ]] && exit 1  # No network.
[[ -z "${BROKEN:-}" ]] || { echo "E: no such package"; exit 100; }
shift 3
cd "$INSTALLED" && touch "$@"''',
    'id': 'echo "${USER_ID:-0}"',
    'sudo': '[[ -n "${HAS_SUDO:-}" ]] && shift && "$@"',
    'python3.11': '''case "$1 $2" in
  '-m venv') mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  '-c import sysconfig'*) echo "$INSTALLED/python3.11-dev" ;;
  '-c import sys'*) echo python3.11-dev ;;
  '-m launch.dmlab_build') ln -sfn "$3" "$4/named"  # As the real one.
    echo "builds ${*:3}" ;;
esac''',
}


class _Machine:
  """A tree with the scripts, on a machine with some packages."""

  def __init__(self, directory):
    self.directory = directory
    self.build = directory / 'cache' / 'impala_tf' / 'dmlab-b1db91a'
    self.installed = directory / 'installed'
    self.installed.mkdir()
    for name in (*_PACKAGES, 'git', 'ca-certificates', 'python3.11-dev'):
      (self.installed / name).touch()
    (directory / 'root' / 'launch').mkdir(parents=True)
    self.script = directory / 'root' / 'launch' / 'install_dmlab.sh'
    for path in ('launch/install_dmlab.sh', 'launch/setup.sh',
                 'launch/usage.sh', 'constraints.txt', 'pyproject.toml',
                 'setup.py'):
      shutil.copy(_ROOT / path, directory / 'root' / path)
    (directory / 'bin').mkdir()
    for name, text in _PROGRAMS.items():
      (directory / 'bin' / name).write_text(f'#!/usr/bin/env bash\n{text}\n')
      (directory / 'bin' / name).chmod(0o755)
    self.sources = directory / 'the sources'
    self.sources.mkdir()

  def run(self, *arguments, **variables):
    """Returns exit code, standard output and the lines of standard error."""
    ran = subprocess.run(
        [self.script, *arguments], cwd=self.directory, timeout=60,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={'PATH': f'{self.directory / "bin"}:{os.environ["PATH"]}',
             'HOME': str(self.directory), 'IMPALA_TF_OFFLINE': '1',
             'INSTALLED': str(self.installed),
             'XDG_CACHE_HOME': str(self.directory / 'cache'), **variables})
    return ran.returncode, ran.stdout.strip(), ran.stderr.splitlines()

  def remove(self, *packages):
    for package in packages:
      (self.installed / package).unlink()

  def calls_of_apt(self):
    calls = self.directory / 'installed.calls'
    return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture(name='machine')
def _machine(tmp_path):
  return _Machine(tmp_path)


@pytest.mark.parametrize('arguments, words', [
    (['--nonsense'], 'there is no flag --nonsense'),
    (['--source='], '--source is empty'),
    (['--source'], '--source is empty'),
    (['--source=none'], '--source: there is no directory none'),
    (['x'], "the argument 'x' is one too many")])
def test_wrong_argument_is_refused_before_anything_is_done(
    machine, arguments, words):
  before = sorted(machine.directory.rglob('*'))
  code, _, (line,) = machine.run(*arguments)
  assert code == 2
  assert line == f'error: {words}; see {machine.script} --help'
  assert sorted(machine.directory.rglob('*')) == before


@pytest.mark.parametrize('arguments', [
    ['--source=the sources'], ['--source', 'the sources']])
def test_sources_are_handed_to_the_build_with_the_environments_python(
    machine, arguments):
  code, out, lines = machine.run(*arguments)
  assert code == 0, lines
  assert out.startswith(
      f'builds {machine.sources} {machine.build} --commit=b1db91a')
  assert out.endswith(f' --log={machine.build / "install.log"}')
  assert machine.calls_of_apt() == []  # Nothing was missing.
  assert machine.run() == (0, out, [])  # The same sources again.


def test_missing_packages_are_installed_by_root(machine):
  machine.remove('zip', 'libabsl-dev', 'python3.11-dev')
  code, out, lines = machine.run('--source=the sources')
  assert code == 0 and out.startswith('builds'), lines
  install = 'install --yes --no-install-recommends'
  # The lists could not be brought up to date: those that are there did.
  assert machine.calls_of_apt() == [
      'update', f'{install} zip libabsl-dev', 'update',
      f'{install} python3.11-dev']


def test_missing_packages_without_root_are_named_in_one_line(machine):
  machine.remove('zip', 'libabsl-dev')
  code, _, (line,) = machine.run('--source=the sources', USER_ID='1000')
  assert code == 2 and machine.calls_of_apt() == []
  assert line.endswith('packages are missing; install them: sudo apt-get '
                       'install --yes --no-install-recommends zip libabsl-dev')
  code, out, lines = machine.run(
      '--source=the sources', USER_ID='1000', HAS_SUDO='1')
  assert code == 0 and out.startswith('builds'), lines


def test_apt_that_fails_is_one_line_with_its_cause(machine):
  machine.remove('zip')
  code, out, lines = machine.run('--source=the sources', BROKEN='1')
  assert code == 1 and not out
  assert 'apt-get failed: E: no such package; try it by hand' in lines[-1]
  assert lines[-1].endswith(f'log is {machine.build / "install.log"}')


def _stands_for_github(machine, url):
  """Returns variables that have git take another repository for Lab's."""
  config = machine.directory / 'gitconfig'
  config.write_text(f'[url "{url}"]\n'
                    'insteadOf = https://github.com/google-deepmind/lab\n')
  return {'GIT_CONFIG_GLOBAL': str(config)}


def test_sources_that_cannot_be_fetched_are_asked_for(machine):
  variables = _stands_for_github(machine, f'file://{machine.directory}/none')
  # The sources that were named the last time are gone.
  assert machine.run('--source=the sources')[0] == 0
  machine.sources.rmdir()
  code, out, lines = machine.run(**variables)
  assert code == 1 and not out
  assert re.search(
      r'fetching https://\S+ failed: .+; get its commit b1db91a elsewhere and '
      r'give the directory: --source=DIR; ', lines[-1])
  assert not (machine.build / 'source').exists()


def test_sources_are_fetched_once(machine):
  repository = machine.directory / 'lab'
  repository.mkdir()
  (repository / 'BUILD').write_text('')
  for words in ('init --quiet', 'add BUILD',
                '-c user.name=A -c user.email=a@b commit --quiet -m All'):
    subprocess.run(['git', *words.split()], cwd=repository, check=True)
  commit = subprocess.check_output(
      ['git', 'rev-parse', 'HEAD'], cwd=repository, text=True).strip()
  text = machine.script.read_text()
  machine.script.write_text(re.sub('COMMIT=.*', f'COMMIT={commit}', text))
  variables = _stands_for_github(machine, f'file://{repository}')
  build = machine.build.with_name(f'dmlab-{commit[:7]}')
  (build / 'source.part' / '.git').mkdir(parents=True)  # Of a killed fetch.
  (build / 'source.part' / '.git' / 'shallow.lock').touch()
  for name in ('source', 'named'):
    (build / name).symlink_to(machine.directory / 'gone')
  code, out, lines = machine.run(**variables)
  assert code == 0, lines
  assert out.startswith(f'builds {build / "source"} {build} ')
  assert (build / 'source' / 'BUILD').exists()
  shutil.rmtree(repository)
  code, out, lines = machine.run(**variables)
  assert code == 0 and out.startswith(f'builds {build / "source"} '), lines
  # Others that are named later are remembered all the same, until those from
  # GitHub are asked for.
  fetched = out
  code, out, lines = machine.run('--source=the sources', **variables)
  assert code == 0 and out.startswith(f'builds {machine.sources} '), lines
  assert machine.run(**variables)[1] == out
  for arguments in (
      ['--source=https://github.com/google-deepmind/lab'], []):
    assert machine.run(*arguments, **variables) == (0, fetched, [])


def test_lab_comes_along_into_the_next_environment(machine):
  assert machine.run('--source=the sources')[0] == 0
  venv = machine.directory / 'root' / '.venv'
  first = venv.resolve()
  lab = 'lib/python3.11/site-packages/deepmind_lab'
  (first / lab).mkdir(parents=True)
  (first / lab / 'bspc').write_text('a program')
  # A real Python has made it.
  python = machine.directory / 'bin' / 'python3.11'
  python.write_text(python.read_text().replace(
      '"$3/bin" &&', '"$3/bin" "$3/lib/python3.11/site-packages" &&'))
  with open(machine.directory / 'root' / 'constraints.txt', 'a') as file:
    file.write('# Changed.\n')
  assert machine.run('--source=the sources')[0] == 0
  assert venv.resolve() != first
  assert (venv / lab / 'bspc').read_text() == 'a program'
  assert (first / lab / 'bspc').exists()  # For programs that run from there.


@pytest.mark.soak  # Minutes of CPU, and only where the sources are.
@pytest.mark.timeout(3600)
def test_lab_is_built_from_its_sources_and_installed(tmp_path):
  source = os.environ.get('IMPALA_TF_LAB_SOURCE')
  if not source:
    pytest.skip('IMPALA_TF_LAB_SOURCE names no sources of DeepMind Lab')
  command = [_LAUNCH / 'install_dmlab.sh', f'--source={source}']
  env = {**os.environ, 'XDG_CACHE_HOME': str(tmp_path)}
  # By the first, unless the same had been installed before.
  for words in ('deepmind_lab is installed ', 'is installed already'):
    ran = subprocess.run(command, env=env, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert words in ran.stderr.splitlines()[-1]
