"""The command `impala-tf`: verbs, --help in no time, and completion."""

import re
import signal

import pytest

from impala_tf.cli import main
from impala_tf.storage import shipped
from tests.fixtures import programs

_HEAVY = ('matplotlib', 'ray', 'reverb', 'scipy', 'tensorflow')
# Runs the command, and prints at its end which of these were imported.
_IMPORTED = f"""
import atexit, sys
atexit.register(lambda: print(
    'imported:', [name for name in {_HEAVY} if name in sys.modules]))
from impala_tf.cli import main
main.main()
"""


@pytest.mark.parametrize('verb', [None, *main.VERBS])
def test_help_imports_nothing_that_takes_long(verb):
  ran = programs.run_code(
      _IMPORTED, *filter(None, [verb]), '--help', check=True)
  assert ran.stdout.startswith(f'usage: impala-tf {verb or "VERB"} [')
  assert ran.stdout.endswith('imported: []\n')


def test_help_lists_all_verbs_which_are_the_programs_and_scripts():
  text = programs.run('impala_tf', '--help').stdout
  scripts = programs.ROOT / 'launch'
  for verb in main.VERBS:
    assert f'\n  {verb} ' in text
    assert verb == 'options' or (
        f' -m impala_tf {verb} "$@"' in (scripts / f'{verb}.sh').read_text())


@pytest.mark.parametrize('arguments, words', [
    (['trian'], 'there is no trian; did you mean train? --help lists'),
    (['nothing'], "invalid choice: 'nothing' (choose from"),
    ([], 'required: VERB; --help lists'),
    (['train', 'ctach'], 'there is no file ctach; did you mean catch?'),
    (['sweep', 'small_taks', '--sweep_dir=x'], 'did you mean small_tasks?'),
    (['population', 'pbd', '--population_dir=x'], 'did you mean pbt?')])
def test_what_is_not_there_is_refused_with_the_nearest(
    tmp_path, arguments, words):
  ran = programs.run('impala_tf', *arguments, cwd=tmp_path)
  assert words in programs.error_line(ran)
  assert not any(tmp_path.iterdir())


def test_program_is_called_as_the_user_has_started_it():
  assert programs.run('impala_tf', 'train', '--help', variables={
      'IMPALA_TF_SCRIPTS': './launch'}).stdout.startswith('usage: train.sh [')


_MINE = """
import impala_tf
from impala_tf.algorithms import impala
impala_tf.register_algorithm('mine', impala.ALGORITHM._replace(
    loss=lambda *arguments, **options: 1 / 0))
"""


@pytest.mark.slow
def test_error_in_a_loss_is_shown_in_a_hostile_directory(tmp_path):
  (tmp_path / 'queue.py').write_text('raise OSError')
  (tmp_path / 'mine.py').write_text(_MINE)
  (script := tmp_path / 'bin' / 'impala-tf').parent.mkdir()
  script.write_text('from impala_tf.cli import main\nmain.main()')
  ran = programs.run_code(
      'import os, signal, sys\n'
      'signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n'
      'os.execv(sys.executable, [sys.executable, *sys.argv[1:]])',
      script, 'train', *programs.CATCH, '--run_dir=run', '--import=mine.py',
      "--gin_binding=ExperimentConfig.algorithm = 'mine'", cwd=tmp_path,
      variables={'TF_USE_LEGACY_KERAS': '1'})
  assert 'the learner ended with exit code 1' in ran.stderr
  assert 'ZeroDivisionError: division by zero' in ran.stderr


@pytest.mark.parametrize('line, words', [
    ('impala-tf ex', ['export']),
    ('impala-tf train --net', ['--network']),
    ('impala-tf train --run_dir=x catc', ['catch', 'catch_replay']),
    ('impala-tf role e', ['evaluator']),
    ('impala-tf sweep ', shipped.config_names(shipped.SWEEPS)),
    ('impala-tf evaluate some', [])])
def test_shell_completes_verbs_flags_and_shipped_configs(tmp_path, line, words):
  """Bash asks by variables how a line may go on."""
  ran = programs.run('impala_tf', cwd=tmp_path, variables={
      'COMP_LINE': line, 'COMP_POINT': str(len(line))})
  assert (ran.returncode, ran.stderr) == (0, '')
  assert ran.stdout.split() == words


# A program that says when it is being imported, and takes its time.
_SLOW = """
import sys, time
from impala_tf.cli import main
class Finder:
  def find_spec(self, name, *unused):
    if name == 'impala_tf.cli.program':
      print('starting', flush=True)
      for _ in range(1000):  # Python sees a signal right before one after it.
        time.sleep(0.1)
sys.meta_path.insert(0, Finder())
main.main()
"""


def test_interrupt_while_a_program_starts_shows_no_trace():
  with programs.running('-c', _SLOW, 'train') as process:
    assert process.stdout.readline() == 'starting\n'
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=programs.DEADLINE_SECS)
  assert process.returncode == -signal.SIGINT and errors == ''


def test_module_of_a_verb_is_no_program_and_names_the_command(tmp_path):
  ran = programs.run('impala_tf.cli.train', '--help', cwd=tmp_path)
  assert programs.error_line(ran).endswith('run python -m impala_tf train')


def test_crash_in_c_shows_where_python_was(tmp_path):
  (tmp_path / 'mine.py').write_text('import os\nos.abort()\n')
  ran = programs.run('impala_tf', 'role', 'learner', '--address=localhost:1',
                     f'--import={tmp_path / "mine.py"}')
  assert ran.returncode == -signal.SIGABRT
  assert re.search(r'Fatal.*: Aborted(?s:.)*mine\.py", line 2', ran.stderr)
