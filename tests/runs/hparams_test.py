"""Tests of the config in TensorBoard, as TensorBoard itself reads it."""

from tensorboard import context as context_lib
from tensorboard.backend.event_processing import data_provider
from tensorboard.backend.event_processing import plugin_event_multiplexer
from tensorboard.data import provider as provider_lib
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import backend_context
from tensorboard.plugins.hparams import list_session_groups
from tensorboard.util import tensor_util

from impala_tf import config as config_lib
from impala_tf.runs import hparams
from impala_tf.runs import metrics


def _config(**optimizer):
  return config_lib.Config(
      environment=config_lib.EnvironmentConfig(level='catch'),
      optimizer=config_lib.OptimizerConfig(**optimizer))


def _train(run_dir, config, returns):
  run_dir.mkdir(exist_ok=True)
  hparams.write(str(run_dir), config, frames=0)
  writer = metrics.MetricsWriter(str(run_dir))
  for n, value in enumerate(returns):
    writer.write({'frames': 10 * n, 'episode_return': value,
                  'best_episode_return': max(returns[:n + 1])})
  writer.close()


def _read(log_dir):
  """Reads a directory of runs as TensorBoard does."""
  multiplexer = plugin_event_multiplexer.EventMultiplexer(
      # A window's worth of each scalar, and all texts.
      tensor_size_guidance={'text': 10, 'scalars': 100})
  multiplexer.AddRunsFromDirectory(str(log_dir))
  multiplexer.Reload()
  return multiplexer


def _sessions(multiplexer):
  """Returns values and metrics of each session in the HParams dashboard."""
  context = backend_context.Context(base_plugin.TBContext(
      data_provider=data_provider.MultiplexerDataProvider(multiplexer, '')))
  asking = context_lib.RequestContext()
  experiment = context.experiment_from_metadata(
      asking, '', True, context.hparams_metadata(asking, ''),
      provider_lib.ListHyperparametersResult([], []))
  request = api_pb2.ListSessionGroupsRequest(
      start_index=0, slice_size=99, allowed_statuses=range(4), col_params=[
          api_pb2.ColParams(metric=info.name)
          for info in experiment.metric_infos])
  groups = list_session_groups.Handler(
      asking, context, '', request).run().session_groups
  found = {}
  for group in groups:
    session, = group.sessions
    found[session.name.split('/')[0]] = (
        {name: getattr(value, value.WhichOneof('kind'))
         for name, value in group.hparams.items()},
        {value.name.tag: value.value for value in session.metric_values})
  assert {info.name for info in experiment.hparam_infos} == set(
      hparams.values(config_lib.Config()))
  return found


def test_each_run_is_a_session_with_its_values_and_returns(tmp_path):
  _train(tmp_path / 'a', _config(learning_rate=0.5), [1., 3., 2.])
  # Two runs with one config are two sessions of the dashboard.
  for name in 'b', 'c':
    _train(tmp_path / name, _config().replaced(
        'impala', clip_rho_threshold=None), [4.])
  sessions = _sessions(_read(tmp_path))
  assert list(sessions) == ['a', 'b', 'c']
  values, returns = sessions['a']
  assert values['OptimizerConfig.learning_rate'] == 0.5
  assert values['EnvironmentConfig.level'] == 'catch'
  assert values['OptimizerConfig.annealed'] is True
  assert values['ActorConfig.num_actors'] == 'None'
  assert returns == {'episode_return': 2., 'best_episode_return': 3.}
  assert sessions['a'][0]['ImpalaConfig.clip_rho_threshold'] == 1.
  assert 'ImpalaConfig.clip_rho_threshold' not in sessions['b'][0]
  assert sessions['b'][1]['episode_return'] == 4


def test_resumed_run_shows_its_new_values(tmp_path):
  run_dir = tmp_path / 'a'
  _train(run_dir, _config(learning_rate=0.5), [1.])
  _train(run_dir, _config(learning_rate=0.25), [2.])
  multiplexer = _read(tmp_path)
  (values, _), = _sessions(multiplexer).values()
  assert values['OptimizerConfig.learning_rate'] == 0.25
  texts = [tensor_util.make_ndarray(event.tensor_proto).item().decode()
           for event in multiplexer.Tensors('a/tensorboard', 'config')]
  assert len(texts) == 1
  assert '| OptimizerConfig.learning_rate | **0.25** |' in texts[0]
  assert '| ExperimentConfig.seed | 1 |' in texts[0]


def test_training_goes_on_if_it_cannot_be_written(tmp_path, caplog):
  (tmp_path / 'tensorboard').write_text('a file')
  hparams.write(str(tmp_path), _config(), frames=0)
  assert 'TensorBoard does not get the config' in caplog.text
