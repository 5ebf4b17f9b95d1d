"""The command `impala-tf`, which runs the program of a verb.

Processes of a run are started with `python -m impala_tf`, which does the same.
"""

import argparse
import faulthandler
import gc
import importlib
import logging
import os
import signal
import sys

import impala_tf
from impala_tf.runtime import output
from impala_tf.runtime import proxies
from impala_tf.runtime import wording

# Each is a module of this package, with its own --help.
VERBS = {
    'train': 'trains an agent on this machine, or resumes a run',
    'evaluate': 'plays full games with a trained agent and scores them',
    'plot': 'draws learning curves of runs',
    'report': 'draws and tabulates everything that is known of runs',
    'export': "writes a run's agent into a directory to share",
    'sweep': 'trains many settings, variants, tasks and seeds',
    'population': 'trains runs that copy the better ones',
    'role': 'runs the learner, an actor, the evaluator or the replay of a run',
    'cluster': 'trains an agent on a Ray cluster',
    'options': 'prints all options with their defaults and meanings',
}


def _show_all_but_interrupts(kind, error, trace):
  """Prints the trace of an uncaught error unless it is KeyboardInterrupt."""
  if not issubclass(kind, KeyboardInterrupt):
    sys.__excepthook__(kind, error, trace)


def _run() -> int:
  """Runs the program of the verb in `sys.argv`; returns its exit code."""
  from impala_tf.cli import command_line
  parser = command_line.Parser(
      prog='impala-tf', usage='%(prog)s VERB [ARGUMENTS]',
      description='IMPALA (Espeholt et al., 2018): trains and plays agents.',
      epilog='\n'.join(['verbs (VERB --help lists the flags of each):', *(
          f'  {verb:12}{what}' for verb, what in VERBS.items())]),
      formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument('verb', metavar='VERB', choices=VERBS,
                      help=argparse.SUPPRESS)
  parser.add_argument('--version', action='version',
                      version=impala_tf.__version__)
  # With None it completes the verb if the shell asks for that.
  verb = parser.parse_args(sys.argv[1:2] if sys.argv[2:] else None).verb
  sys.argv[:2] = [wording.command(verb)]
  return importlib.import_module(f'impala_tf.cli.{verb}').main()


@output.never_failing()
def main() -> None:
  """Runs the subcommand, and ends the process with its exit code."""
  # Looking for garbage as often as by default is 1/6 of TensorFlow's import.
  gc.set_threshold(50_000)
  faulthandler.enable()  # A crash in C++ leaves Python's stacks in the log.
  sys.excepthook = _show_all_but_interrupts
  logging.raiseExceptions = False  # Reverb logs after the log has ended.
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # Ignored, it hides exit codes.
  if sys.modules['__main__'].__spec__ is None:  # Not by `python -m`.
    os.environ.setdefault('PYTHONSAFEPATH', '1')  # No queue.py of a user's.
  proxies.bypass_everywhere()
  # Here, since Ctrl-C may come while they are imported.
  from impala_tf.cli import command_line
  from impala_tf.cli import program
  command_line.take_words_to_complete()
  # A role has saved everything by then. On a busy machine TensorFlow and Reverb
  # take seconds to end, and Ctrl-C has only ten.
  program.end(program.run(_run), at_once=sys.argv[1:2] == ['role'])
