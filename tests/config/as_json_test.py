"""A config as text: equal when it is read back, or refused."""

import json

import pytest

from impala_tf import config as config_lib
from impala_tf.config import as_json
from tests.fixtures import configs


def _changed(change):
  """Writes the default config as text, with something changed in it."""
  values = json.loads(as_json.dumps(config_lib.Config()))
  change(values)
  return json.dumps(values)


@pytest.mark.parametrize('config', [
    config_lib.Config(), configs.changed_everywhere()])
def test_what_is_written_reads_back_equal(config):
  assert as_json.loads(as_json.dumps(config)) == config


@pytest.mark.parametrize('text, words', [
    ('{', 'is no config'), ('[]', 'is no config'), ('{}', 'actor is missing'),
    (_changed(lambda v: v.update(os={})), 'os is unknown'),
    (_changed(lambda v: v['agent'].pop('torso')),
     'AgentConfig.torso is missing; install the same version'),
    (_changed(lambda v: v['agent'].update(wings=2)),
     'another version of impala_tf: AgentConfig.wings is unknown'),
    (_changed(lambda v: v.update(agent=[])), 'is no config'),
    (_changed(lambda v: v['learner'].update(batch_size=0)),
     'LearnerConfig.batch_size must be at least 1')])
def test_anything_else_is_refused_in_one_line(text, words):
  with pytest.raises(config_lib.ConfigError, match=words) as error:
    as_json.loads(text)
  assert '\n' not in str(error.value)
