"""A run's config in TensorBoard: as text, and as hyperparameters to compare."""

import os
from typing import Any

from absl import logging

from impala_tf import config as config_lib
from impala_tf.runs import gin_config
from impala_tf.storage import files

_SUFFIX = '.hparams'  # Of the event file, which each start of a run replaces.
# Scalars of the rows, of which the dashboard shows the newest value.
METRICS = ('best_episode_return', 'episode_return')


def write(run_dir: str, config: config_lib.Config, frames: int) -> None:
  """Writes a config to a run's TensorBoard files; warns if it cannot.

  `frames` learned from so far are TensorBoard's step of the text.
  """
  # Here, since they import TensorFlow, which takes seconds.
  from tensorboard.plugins.hparams import api_pb2
  from tensorboard.plugins.hparams import summary as hparams
  import tensorflow as tf
  directory = os.path.join(run_dir, 'tensorboard')
  defaults, chosen = values(config_lib.Config()), values(config)
  # A column has one type: text if the default is None.
  kinds = {name: 'BOOL' if isinstance(default, bool) else
           'FLOAT64' if isinstance(default, (int, float)) else 'STRING'
           for name, default in defaults.items()}
  columns = hparams.experiment_pb(
      [api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(
          f'DATA_TYPE_{kind}')) for name, kind in kinds.items()],
      [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in METRICS])
  # A column of numbers has a gap for None.
  session = hparams.session_start_pb({
      name: str(value) if kinds[name] == 'STRING' else value
      for name, value in chosen.items()
      if value is not None or kinds[name] == 'STRING'}, group_name=run_dir)
  lines = ['| option | value |', '|---|---|']
  for name, value in chosen.items():
    mark = '' if value == defaults[name] else '**'
    lines.append(f'| {name} | {mark}{value!r}{mark} |')
  try:
    for name in files.names(directory):
      if name.endswith(_SUFFIX):
        files.remove(os.path.join(directory, name))
    with tf.summary.create_file_writer(
        directory, filename_suffix=_SUFFIX).as_default():
      for summary in columns, session:
        tf.summary.experimental.write_raw_pb(summary.SerializeToString(), 0)
      tf.summary.text('config', '\n'.join(lines), frames)
  except Exception as error:  # Errors of TensorFlow's files are no OSErrors.
    logging.warning('TensorBoard does not get the config: %s', error)


def values(config: config_lib.Config) -> dict[str, Any]:
  """Returns each option's value by its name in .gin files; dicts as text."""
  return {name: str(value) if isinstance(value, dict) else value
          for name, value in gin_config.values(config).items()}
