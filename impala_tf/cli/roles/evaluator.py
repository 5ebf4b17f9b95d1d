"""The evaluator as a program."""

import argparse
import os
from typing import Any, Mapping

from impala_tf.cli.roles import learner_connection
from impala_tf.runs import run_directory
from impala_tf.runtime import child as child_lib
from impala_tf.runtime import plurals
from impala_tf.storage import files


def _describe(row: Mapping[str, Any]) -> str:
  """Describes an evaluation in one line."""
  error = row.get('standard_error')
  spread = f' ± {error:.2f}' if error is not None else ''
  return (f'{row["frames"]:,d} frames: return {row["episode_return"]:.2f}'
          f'{spread} ({plurals.counted(row["episodes"], "game")})')


def run(args: argparse.Namespace) -> None:
  """Plays until a signal comes, or the learner goes (ConnectionError)."""
  say = learner_connection.begin(args)
  if args.supervised:
    child_lib.yield_to_others()
  output = args.output or os.path.join(args.run_dir, run_directory.EVALUATION)
  run_directory.reach(output)
  learner = learner_connection.LearnerConnection(args, say)
  config = learner.config()
  # Here, since it imports TensorFlow, which takes seconds.
  from impala_tf.roles import evaluator
  files.make_directory(output)
  evaluator.run_evaluator(
      config, args.address, output, args.seed or args.task, learner.poll,
      on_row=lambda row: say(_describe(row)))
