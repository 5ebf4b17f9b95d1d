"""bfloat16 is for processors that gain by it, where the config allows it."""

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import cores
from impala_tf.runtime import precision

_WITH_AMX = {'avx512_bf16', 'amx_tile', 'amx_bf16'}
_WITH_AVX, _WITHOUT = {'avx512f', 'avx512_bf16'}, {'avx512f'}


def _has(flags, monkeypatch):
  monkeypatch.setattr(cores, 'cpuinfo', lambda fact: ' '.join(flags))


def _config(chosen, torso='shallow', in_process=False):
  return config_lib.Config(
      experiment=config_lib.ExperimentConfig(in_process=in_process),
      agent=config_lib.AgentConfig(torso=torso),
      learner=config_lib.LearnerConfig(precision=chosen))


@pytest.mark.parametrize('chosen, torso, flags, learner, actor', [
    ('float32', 'shallow', _WITH_AMX, 'float32', 'float32'),
    ('auto', 'deep', _WITH_AMX, 'mixed_bfloat16', 'bfloat16'),
    ('auto', 'shallow', _WITH_AVX, 'mixed_bfloat16', 'bfloat16'),
    ('auto', 'shallow', _WITHOUT, 'float32', 'float32'),
    ('auto', 'mlp', _WITH_AMX, 'float32', 'float32'),
    ('auto', 'my_own', _WITH_AMX, 'float32', 'float32'),
    ('mixed_bfloat16', 'shallow', _WITH_AMX, 'mixed_bfloat16', 'bfloat16'),
    # The learner may be on another machine, with a TPU.
    ('mixed_bfloat16', 'shallow', _WITHOUT, 'mixed_bfloat16', 'float32'),
    ('mixed_bfloat16', 'my_own', _WITH_AMX, 'mixed_bfloat16', 'float32')])
def test_torso_computes_in_what_pays(
    chosen, torso, flags, learner, actor, monkeypatch):
  _has(flags, monkeypatch)
  config = _config(chosen, torso)
  assert precision.of_learner(config) == learner
  assert precision.of_actor(config) == actor


@pytest.mark.parametrize('chosen, learner', [
    ('auto', 'float32'), ('mixed_bfloat16', 'mixed_bfloat16')])
def test_learner_on_a_gpu_computes_in_float32_by_default(
    chosen, learner, monkeypatch):
  _has(_WITH_AMX, monkeypatch)
  assert precision.of_learner(_config(chosen), '/GPU:0') == learner


@pytest.mark.parametrize('torso, in_process, flags, words', [
    ('deep', False, _WITH_AMX, 'mixed_bfloat16 on CPUs (this processor has AM'),
    ('deep', False, _WITHOUT, 'float32 on CPUs (this processor has no instru'),
    ('mlp', False, _WITH_AMX, 'float32 on CPUs (nothing to gain with the tor'),
    ('deep', True, _WITH_AMX, 'float32 on CPUs (the same numbers on every')])
def test_choice_is_explained(torso, in_process, flags, words, monkeypatch):
  _has(flags, monkeypatch)
  assert f'torso in {words}' in precision.explain(
      _config('auto', torso, in_process))


def test_flags_are_those_of_the_first_processor(tmp_path):
  path = tmp_path / 'cpuinfo'
  assert cores.cpuinfo('flags', path) == ''
  path.write_text('processor\t: 0\nflags\t\t: fpu amx_bf16\nvmx flags\t: x\n'
                  'processor\t: 1\nflags\t\t: fpu\n')
  assert cores.cpuinfo('flags', path) == 'fpu amx_bf16'
  path.write_text('Features\t: fp asimd\n')  # As on ARM.
  assert cores.cpuinfo('flags', path) == ''
