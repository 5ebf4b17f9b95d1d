"""Tests of launch/setup.sh, on machines that have only stand-ins of programs.

A stand-in notes its calls; environments are made in no time since a stand-in of
Python copies itself.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UV = 'uv==0.13.9'
# Programs of any system that the script, or a stand-in, calls.
_SYSTEM = ('bash', 'cat', 'cp', 'dirname', 'env', 'flock', 'grep', 'ln',
           'mkdir', 'mv', 'readlink', 'rm', 'sed', 'sh', 'sha256sum', 'tail')

_PYTHON = r"""
case "$*" in
  *version_info*) {supported} ;;
  *ensurepip*) {venv} ;;
  '-m venv '*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  '-m pip install '*uv==*) eval "$PIP"; cp "$UV" "${{0%/*}}/uv" ;;
  '-m pip install '*) eval "$PIP" ;;
  '-m pip config list') echo "$PIP_CONFIG" ;;
  '-m pip freeze '*) [[ ! -e "${{0%/*}}/freeze" ]] || cat "${{0%/*}}/freeze" ;;
  'wait ') read -r _ ;;
esac
"""
# Makes environments with the stand-in of Python that `FOUND` names.
_UV = r"""
case "$*" in
  'python find '*) [[ -e "$FOUND" ]] && echo "$FOUND" ;;
  'python install '*) eval "$FETCH"
    [[ "$UV_PYTHON_INSTALL_BIN" == 0 ]] || exit 1  # A link in the home.
    mkdir -p "$UV_PYTHON_INSTALL_DIR/cpython/bin"
    FOUND="$UV_PYTHON_INSTALL_DIR/cpython/bin/python3.11"
    cp "$PYTHON" "$FOUND" ;;
  venv*) mkdir -p "${!#}/bin" && cp "$PYTHON" "${!#}/bin/python" ;;
esac
"""
_CONDA = r"""
case "$1" in create)
  eval "$FETCH"
  mkdir -p "$5/bin" && cp "$PYTHON" "$5/bin/python3.11" ;;
esac
"""
# Fetches the stand-in of uv's installer.
_CURL = r"""
case "$*" in *https://astral.sh/uv/0.13.9/install.sh)
  eval "$FETCH"
  echo 'cp "$UV" "$UV_UNMANAGED_INSTALL/uv"' > "${@: -2:1}" ;;
esac
"""


class _Machine:
  """A checkout of nothing but the set-up, and a PATH of stand-ins."""

  def __init__(self, path):
    self.root = path / 'a root'
    self.bin = path / 'bin'
    self.home = path / 'home'
    self.spare = path / 'spare'
    self.calls_file = path / 'calls'
    for directory in (self.bin, self.home, self.spare):
      directory.mkdir()
    (self.root / 'launch').mkdir(parents=True)
    for name in ('launch/setup.sh', 'launch/usage.sh', 'constraints.txt',
                 'pyproject.toml', 'setup.py'):
      shutil.copy(ROOT / name, self.root / name)
    for name in _SYSTEM:
      (self.bin / name).symlink_to(shutil.which(name))
    # For a fetch.
    self.add('uv', _UV, self.spare)
    self.add_python('python3.11', self.spare)

  def add(self, name, body, directory=None):
    path = (directory or self.bin) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!{self.bin}/bash\n'
                    f'echo "${{0##*/}} $*" >> "$CALLS"\n{body}\n')
    path.chmod(0o755)
    return path

  def add_python(self, name, directory=None, supported=True, venv=True):
    return self.add(name, _PYTHON.format(
        supported='exit 0' if supported else 'exit 1',
        venv='exit 0' if venv else 'exit 1'), directory)

  def run(self, script='launch/setup.sh', **variables):
    """Returns the exit code and the lines of standard error."""
    env = {'PATH': str(self.bin), 'HOME': str(self.home),
           'CALLS': str(self.calls_file), 'UV': str(self.spare / 'uv'),
           'PYTHON': str(self.spare / 'python3.11'),
           'FOUND': f'{self.root}/.python/cpython/bin/python3.11',
           'PIP': '', 'PIP_CONFIG': '', 'FETCH': '', **variables}
    ran = subprocess.run(
        [self.root / script], env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60)
    assert not ran.stdout
    return ran.returncode, ran.stderr.splitlines()

  def calls(self, program, words=''):
    """Lists the calls of a program that have these words."""
    if not self.calls_file.exists():
      return []
    return [line for line in self.calls_file.read_text().splitlines()
            if line.startswith(f'{program} ') and words in line]

  def make_stale(self):
    with open(self.root / 'constraints.txt', 'a') as constraints:
      constraints.write('# Changed.\n')

  @property
  def python(self):
    return self.root / '.venv' / 'bin' / 'python'

  def environments(self):
    return sorted(path.resolve() for path in (self.root / '.venvs').iterdir())


@pytest.fixture(name='machine')
def _machine(tmp_path):
  return _Machine(tmp_path)


def _assert_refused(machine, words, **variables):
  """Asserts one line with exit code 2, and nothing left behind."""
  before = sorted(machine.root.rglob('*'))
  code, (line,) = machine.run(**variables)
  assert code == 2
  assert all(word in line for word in words), line
  assert line.endswith(', or use Docker (launch/docker/Dockerfile)')
  assert (ROOT / 'launch/docker/Dockerfile').exists()
  assert sorted(machine.root.rglob('*')) == before
  assert not machine.calls('curl', 'https') and not machine.calls('uv', 'insta')


# Which Python is taken.


def _assert_made(ran, python, line=0):
  """Asserts that a run made an environment with this Python."""
  code, lines = ran
  assert code == 0 and f'making .venv with {python} and' in lines[line]


@pytest.mark.parametrize('there, taken', [
    (['python3.10', 'python3.11', 'python3'], 'python3.11'),
    (['python3.10', 'python3'], 'python3.10'), (['python3'], 'python3')])
def test_python_of_the_path_is_taken_the_newest_first(machine, there, taken):
  for name in there:
    machine.add_python(name)
  machine.add('uv', _UV)
  _assert_made(machine.run(), taken)
  assert machine.calls('uv', f'--python {taken} ')
  assert not machine.calls('uv', 'python find')
  assert machine.run() == (0, [])  # It is there.


def test_placeholder_that_does_not_run_and_other_versions_are_passed_over(
    machine):
  machine.add('python3.11', 'exit 127')
  machine.add_python('python3', supported=False)
  machine.add_python('python3.10')
  _assert_made(machine.run(IMPALA_TF_OFFLINE='1'), 'python3.10')


def test_python_that_is_named_comes_before_all_others(machine, tmp_path):
  machine.add_python('python3.11')
  named = machine.add_python('my python', tmp_path)
  _assert_made(machine.run(
      IMPALA_TF_PYTHON=str(named), IMPALA_TF_OFFLINE='1'), named)


@pytest.mark.parametrize('name', ['python3.12', 'no-such-python'])
def test_python_that_is_named_and_does_not_do_is_refused(machine, name):
  machine.add_python('python3.11')
  machine.add_python('python3.12', supported=False)
  _assert_refused(
      machine, ['IMPALA_TF_PYTHON names no Python 3.11 or 3.10', name],
      IMPALA_TF_PYTHON=name)


@pytest.mark.parametrize('name, body', [('uv', _UV), ('curl', _CURL)])
def test_python_without_venv_is_enough_for_uv_which_may_be_fetched(
    machine, name, body):
  machine.add_python('python3.10', venv=False)
  machine.add(name, body)
  _assert_made(machine.run(), 'python3.10', line=-2)


def test_python_without_venv_alone_is_refused_with_the_packages_name(machine):
  machine.add_python('python3.10', venv=False)
  _assert_refused(machine, ['python3.10 cannot make virtual environments',
                            'apt install python3.10-venv'])


# Fetches.


@pytest.mark.parametrize('place', ['.local/bin', '.cargo/bin'])
def test_uv_is_found_where_its_installers_put_it(machine, place):
  machine.add('uv', _UV, machine.home / place)
  found = machine.add_python('python3.11', machine.home / 'pythons')
  _assert_made(machine.run(FOUND=str(found)), found)
  assert not machine.calls('uv', 'python install')


@pytest.mark.parametrize('name, body, path, call', [
    ('uv', _UV, 'cpython', 'python install 3.11'),
    *((name, _CONDA, 'conda', '--channel conda-forge python=3.11')
      for name in ('conda', 'mamba', 'micromamba'))])
def test_python_is_fetched_into_the_checkout_once(
    machine, name, body, path, call):
  machine.add(name, body)
  fetched = machine.root / '.python' / path / 'bin/python3.11'
  ran = machine.run()
  assert ran[1][0].startswith(
      f'setup: fetching Python 3.11 with {name} into {machine.root}/.python')
  _assert_made(ran, fetched, line=-2)
  machine.make_stale()
  _assert_made(machine.run(), fetched)
  assert len(machine.calls(name, call)) == 1


def test_any_python_3_fetches_uv_with_pip(machine):
  machine.add_python('python3', supported=False)
  code, lines = machine.run()
  assert code == 0, lines
  assert lines[0] == (
      f'setup: fetching uv 0.13.9 with python3 into {machine.root}/.python')
  assert 'fetching Python 3.11 with ' in lines[1]
  install, = machine.calls('python', 'pip install')
  assert install.endswith(UV)
  assert sorted(path.name for path in (machine.root / '.python').iterdir()) == [
      'cpython', 'setup.log', 'uv']
  machine.make_stale()
  assert len(machine.run()[1]) == 2  # Both are there.


@pytest.mark.parametrize('release, words', [
    ('VERSION_ID="12"\nID=debian', 'apt install python3.11 python3.11-venv'),
    ('ID=debian\nVERSION_ID="13"', 'apt install curl ca-certificates'),
    ('VERSION_ID="22.04"\nID=ubuntu', 'apt install python3.10 python3.10-venv'),
    ('ID=fedora\nVERSION_ID=43', 'dnf install python3.11'),
    ('ID="opensuse-leap"\nVERSION_ID="15.6"', 'zypper install python311'),
    ('', 'install Python 3.11 or uv')])
def test_machine_with_nothing_gets_the_packages_of_its_release(
    machine, tmp_path, release, words):
  (machine.bin / 'cat').unlink()
  (tmp_path / 'release').write_text(release + '\n')
  cat = shutil.which('cat')
  machine.add('cat', f'if [[ "$*" == /etc/os-release ]]; then\n'
                     f'  exec {cat} "{tmp_path}/release"\nfi\nexec {cat} "$@"')
  _assert_refused(machine, [f'no Python 3.11 or 3.10 on the PATH; {words}'])


@pytest.fixture(
    name='fetcher', params=['uv', 'conda', 'curl', 'wget', 'python3'])
def _machine_with_a_fetcher(machine, request):
  """Returns a machine that can fetch Python with this one program alone."""
  bodies = {'uv': _UV, 'conda': _CONDA, 'curl': _CURL, 'wget': _CURL}
  if request.param in bodies:
    machine.add(request.param, bodies[request.param])
  else:
    machine.add_python(request.param, supported=False)
  return machine


def test_offline_forbids_to_fetch_python_and_uv(fetcher):
  _assert_refused(
      fetcher, ['IMPALA_TF_OFFLINE forbids fetching one'],
      IMPALA_TF_OFFLINE='1')
  assert fetcher.run()[0] == 0  # Without it all of them do.


def test_fetch_that_fails_is_one_line_and_can_be_tried_again(fetcher):
  failure = 'echo error: no route to host; exit 7'
  code, lines = fetcher.run(FETCH=failure, PIP=failure)
  assert code == 1 and len(lines) == 2
  assert lines[1] == ('setup: failed: error: no route to host; the whole log '
                      f'is {fetcher.root}/.python/setup.log')
  assert not (fetcher.root / '.venv').exists()
  assert not (fetcher.root / '.python' / 'uv').exists()
  assert fetcher.run()[0] == 0


# Packages.


def test_packages_are_installed_with_uv_which_is_fetched_once(machine):
  machine.add_python('python3.11')
  code, lines = machine.run()
  assert code == 0 and 'fetching uv 0.13.9 with python3.11' in lines[0]
  machine.make_stale()
  assert machine.run()[0] == 0
  assert [UV in call for call in machine.calls('python', 'pip install')] == [
      True]
  packages = machine.calls('uv', f'{machine.root}[cpu,test]')
  assert len(packages) == 2
  assert all(f'-c {machine.root}/constraints.txt' in p for p in packages)


@pytest.mark.parametrize('variables', [
    {'IMPALA_TF_OFFLINE': '1'},
    # Long, so that nobody must be gone before all of it is read.
    {'PIP_CONFIG': "global.index-url='file:///packages'\n" + 'x\n' * 49_999}])
def test_packages_are_installed_with_pip_where_uv_is_not_to_be_fetched(
    machine, variables):
  machine.add_python('python3.11')
  code, lines = machine.run(**variables)
  assert code == 0 and len(lines) == 2
  install = machine.calls('python', f'{machine.root}[cpu,test]')
  assert len(install) == 1 and '-m pip install' in install[0]
  assert not (machine.root / '.python').exists()


@pytest.mark.parametrize('variables, extra', [
    ({}, 'gpu'), ({'IMPALA_TF_EXTRA': 'cpu'}, 'cpu')])
def test_gpus_packages_are_the_default_of_a_machine_with_one(
    machine, variables, extra):
  machine.add_python('python3.11')
  machine.add('nvidia-smi', '')
  assert machine.run(IMPALA_TF_OFFLINE='1', **variables)[0] == 0
  assert machine.calls('python', f'{machine.root}[{extra},test]')


def test_users_settings_of_pip_and_python_are_not_for_the_environment(machine):
  machine.add('python3.11', _PYTHON.format(supported='exit 0', venv='exit 0')
              + 'echo "$1 $2 ${PYTHONPATH-} $PIP_USER" >> "$CALLS"')
  assert machine.run(IMPALA_TF_OFFLINE='1', PYTHONPATH='mine',
                     PIP_USER='1')[0] == 0
  calls = machine.calls_file.read_text()
  assert '-m pip  0\n' in calls and '-m pip mine' not in calls


def test_other_systems_are_refused_before_a_program_is_missed(machine):
  (machine.bin / 'sha256sum').unlink()
  _assert_refused(machine, ['the scripts need Linux'], OSTYPE='darwin23')


def test_home_that_cannot_be_written_keeps_no_cache(machine):
  machine.add_python('python3.11')
  machine.add('uv', _UV + 'echo "cache ${UV_NO_CACHE-}" >> "$CALLS"')
  assert machine.run(HOME='/proc/nohome')[0] == 0
  assert 'cache 1' in machine.calls_file.read_text()


# Environments.


@pytest.fixture(name='made')
def _machine_with_environment(machine):
  """Returns a machine where everything was set up once, without uv."""
  machine.add_python('python3.11')
  assert machine.run(IMPALA_TF_OFFLINE='1')[0] == 0
  return machine


def _set_up(machine, script='launch/setup.sh', **variables):
  return machine.run(script, IMPALA_TF_OFFLINE='1', **variables)


@pytest.mark.parametrize('pip, code', [
    ('echo ERROR: no such version; exit 1', 1), ('kill -9 $PPID', -9)])
def test_set_up_that_fails_or_is_killed_leaves_the_environment(made, pip, code):
  environment = made.python.resolve()
  constraints = (made.root / 'constraints.txt').read_text()
  made.make_stale()
  ended, lines = _set_up(made, PIP=pip)
  assert ended == code
  assert code < 0 or 'failed: ERROR: no such version; the whole' in lines[-1]
  assert made.python.resolve() == environment and environment.exists()
  (made.root / 'constraints.txt').write_text(constraints)
  assert _set_up(made) == (0, [])  # It is as good as it was.
  made.make_stale()
  assert _set_up(made)[0] == 0
  assert made.python.resolve() != environment
  # The half-finished environment is gone.
  assert len(made.environments()) == 2


def test_symlinked_checkout_has_the_same_environment(made, tmp_path):
  environment = made.python.resolve()
  root = made.root
  (tmp_path / 'link').symlink_to(root)
  (tmp_path / 'scripts').symlink_to(root / 'launch')
  for made.root, script in ((tmp_path / 'link', 'launch/setup.sh'),
                            (tmp_path / 'scripts', 'setup.sh')):
    assert _set_up(made, script) == (0, [])
  made.root = root
  assert made.python.resolve() == environment
  assert not (tmp_path / '.venv').exists()


def test_checkout_that_python_cannot_search_is_refused(machine):
  machine.root = machine.root.rename(machine.root.with_name('a:b'))
  machine.add_python('python3.11')
  code, (line,) = machine.run()
  assert code == 2 and f'colon in {machine.root} breaks' in line
  assert not machine.calls('python3.11')


@pytest.mark.parametrize('name', ['a[1]*?', "it's größe", r'a\b', 'x' * 200])
def test_checkout_may_have_any_other_name(machine, name):
  machine.root = machine.root.rename(machine.root.with_name(name))
  machine.add_python('python3.11')
  assert machine.run()[0] == 0 and machine.run() == (0, [])
  for _ in range(2):
    machine.make_stale()
    assert machine.run()[0] == 0
  assert len(machine.environments()) == 2


def test_pinned_packages_come_before_those_of_the_users_path(made):
  (made.root / 'launch/show.sh').write_text(
      '#!/usr/bin/env bash\n'
      'source "${BASH_SOURCE[0]%/*}/setup.sh"\n'
      'echo "$PYTHONPATH" "${PYTHONHOME-none}" >&2\n')
  (made.root / 'launch/show.sh').chmod(0o755)
  site = made.python.parents[1].resolve() / 'lib/python3.11/site-packages'
  site.mkdir(parents=True)
  for given, expected in ((None, ''), ('', ''), ('/x:/y', f':{site}:/x:/y')):
    variables = {} if given is None else {'PYTHONPATH': given}
    assert made.run('launch/show.sh', PYTHONHOME='/z', **variables) == (
        0, [f'{made.root}{expected} none'])


def test_environment_stays_as_long_as_a_program_runs_from_it(made):
  first = (made.root / '.venv').resolve()
  with subprocess.Popen(
      [first / 'bin' / 'python', 'wait', ''], stdin=subprocess.PIPE,
      env={'CALLS': str(made.calls_file)}) as program:
    for _ in range(2):
      made.make_stale()
      assert _set_up(made)[0] == 0
    second = (made.root / '.venv').resolve()
    assert first in made.environments() and second != first
    program.stdin.close()
  made.make_stale()
  assert _set_up(made)[0] == 0
  # The one before stays, for programs on other machines, say.
  # Names of one second are in the order of processes' numbers.
  assert made.environments() == sorted(
      [second, (made.root / '.venv').resolve()])


def test_directory_of_an_earlier_version_gives_way_to_a_link(made):
  link = made.root / '.venv'
  environment = link.resolve()
  link.unlink()
  environment.rename(link)
  made.make_stale()
  assert _set_up(made, PIP='exit 1')[0] == 1
  assert (link / 'stamp').exists() and not link.is_symlink()
  assert _set_up(made)[0] == 0
  assert link.is_symlink() and (link / 'stamp').exists()


@pytest.mark.parametrize('has_record', [True, False])
def test_packages_installed_by_hand_are_named(made, has_record):
  freeze = made.python.with_name('freeze')
  record = made.python.parents[1] / 'packages.txt'
  assert record.read_text() == ''
  if has_record:
    record.write_text('numpy==1.26.4\nformer==1\n')
  else:
    record.unlink()
  (made.bin / 'freeze').write_text('numpy==1.26.4\n')
  python = made.bin / 'python3.11'  # Its copies have numpy installed.
  python.write_text(python.read_text().replace(
      '"$3/bin/python"', '"$3/bin/python" && cp "${0%/*}/freeze" "$3/bin/"'))
  freeze.write_text('# Editable\nnumpy==1.25.0\nnumpy-financial==1.0.0\n'
                    'mine @ file:///mine\n' + 'former==1\n' * has_record)
  made.make_stale()
  code, lines = _set_up(made)
  assert code == 0
  assert lines[1] == (
      'setup: the new .venv lacks what was installed by hand; install it again:'
      ' .venv/bin/python -m pip install -c constraints.txt '
      "'numpy-financial==1.0.0' 'mine @ file:///mine'")
  made.make_stale()
  assert len(_set_up(made)[1]) == 2  # It is said once.


@pytest.mark.slow  # It installs uv, and has it make an environment.
def test_real_uv_finds_python_and_makes_the_environment(machine, tmp_path):
  tools = tmp_path / 'tools'
  for command in (['-m', 'venv', tools],
                  ['-m', 'pip', '--python', tools / 'bin' / 'python',
                   'install', '--quiet', UV]):
    subprocess.run([sys.executable, *command], check=True, timeout=100)
  # The Python that it finds is not on the PATH of the script. Packages, which
  # take a minute to install, are left out.
  machine.add('uv', f"""if [[ "$1" == pip ]]; then exit; fi
PATH="{pathlib.Path(sys.base_prefix) / 'bin'}:$PATH"
exec "{tools}/bin/uv" "$@\"""")
  code, lines = machine.run(**{**os.environ, 'PATH': str(machine.bin)})
  assert code == 0, lines
  version = subprocess.run(
      [machine.python, '-c', 'import sys; print(sys.version_info[:2])'],
      capture_output=True, text=True, timeout=60, check=True).stdout
  assert version == '(3, 11)\n'
  assert not (machine.root / '.python').exists()
