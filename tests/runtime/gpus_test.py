"""Learners alone see GPUs, of which a stub of nvidia-smi reports."""

from importlib import metadata
import json
import os
import stat
from unittest import mock

import pytest

from impala_tf import config as config_lib
from impala_tf.runtime import gpus
from tests.fixtures import programs

_H100 = 'NVIDIA H100 80GB HBM3, 550.54.15, 9.0'


@pytest.fixture(name='machine')
def _machine(tmp_path, monkeypatch):
  """Returns a function that gives the machine GPUs, a line each."""
  monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)

  def make(*lines, exit_code=0):
    stub = tmp_path / 'nvidia-smi'
    text = '\n'.join(lines)
    stub.write_text(f"#!/bin/sh\ncat <<'E'\n{text}\nE\nexit {exit_code}\n")
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')

  return make


@pytest.fixture(name='with_cuda', autouse=True)
def _with_cuda(monkeypatch):
  monkeypatch.setattr(metadata, 'version', lambda name: '2.15.1')


def test_machine_without_a_driver_has_none_and_says_nothing(machine):
  assert gpus.found() == [] and gpus.explain() is None
  machine('Failed to initialize NVML: Driver/library mismatch', exit_code=18)
  assert gpus.found() == [] and gpus.explain() is None


@pytest.mark.parametrize('lines, words', [
    ([_H100] * 2, '2 GPUs to learn on: NVIDIA H100 80GB HBM3'),
    (['Tesla V100, 525.60.13, 7.0'], '1 GPU to learn on: Tesla V100'),
    (['Tesla V100, 470.82.01, 7.0'], 'driver 470.82.01 is older than 525.60.'),
    (['NVIDIA B200, 570.10.01, 10.0'], 'compute capability 10.0, but'),
    ([_H100, 'Tesla K80, 525.60.13, 3.7'], 'Tesla K80 has compute')])
def test_beginning_of_a_run_says_what_learns(machine, lines, words):
  machine(*lines)
  assert words in gpus.explain() and '\n' not in gpus.explain()
  assert ('learning on the CPU' in gpus.explain()) != ('learn on:' in words)


def test_build_without_cuda_is_named_with_the_remedy(machine, monkeypatch):
  machine(_H100)
  monkeypatch.setattr(metadata, 'version', mock.Mock(
      side_effect=metadata.PackageNotFoundError('tensorflow')))
  assert 'IMPALA_TF_EXTRA=gpu' in gpus.explain()


@pytest.mark.parametrize('visible, words', [
    ('', 'CUDA_VISIBLE_DEVICES hides all GPUs'), ('-1', 'hides all GPUs'),
    ('2', 'hides all'), ('NoDevFiles', 'hides all'), ('0,-1,1', '1 GPU to'),
    ('1,2,0', '1 GPU to'), ('0,1', '2 GPUs to')])
def test_hidden_gpus_do_not_count(machine, monkeypatch, visible, words):
  machine(_H100, _H100)
  monkeypatch.setenv('CUDA_VISIBLE_DEVICES', visible)
  assert words in gpus.explain()
  if 'hides' in words:
    gpus.take(1, 2)  # Both learn on the CPU.
    assert os.environ['CUDA_VISIBLE_DEVICES'] == visible


@pytest.mark.parametrize('visible, taken', [
    (None, ['0', '1']), ('1,2,0', ['1', '2']), ('GPU-7,MIG', ['GPU-7', 'MIG'])])
def test_learners_of_a_machine_get_a_gpu_each(
    machine, monkeypatch, visible, taken):
  machine(_H100, _H100, _H100)
  for index, gpu in enumerate(taken):
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    if visible is not None:
      monkeypatch.setenv('CUDA_VISIBLE_DEVICES', visible)
    gpus.take(index, 2)
    assert os.environ['CUDA_VISIBLE_DEVICES'] == gpu


def test_single_learner_keeps_all_and_more_than_gpus_are_refused(machine):
  machine('NVIDIA B200, 570.10.01, 10.0')
  gpus.take(1, 2)  # TensorFlow has no use for it: both learn on the CPU.
  machine(_H100)
  gpus.take(0, 1)
  assert 'CUDA_VISIBLE_DEVICES' not in os.environ
  with pytest.raises(config_lib.ConfigError, match='3 learners on a .* 1 GPU,'):
    gpus.take(0, 3)


_NOTES = """
import json, os, sys
with open(os.environ['NOTES'], 'a') as file:
  file.write(json.dumps([' '.join(sys.argv[1:3]),
                         os.environ.get('CUDA_VISIBLE_DEVICES')]) + '\\n')
"""


@pytest.mark.slow
def test_only_the_learner_of_a_run_sees_gpus(tmp_path, machine):
  machine(_H100)
  module, notes = tmp_path / 'notes.py', tmp_path / 'notes'
  module.write_text(_NOTES)
  programs.run(
      'impala_tf', 'train', *programs.CATCH, f'--run_dir={tmp_path / "run"}',
      f'--import={module}', '--evaluate',
      '--gin_binding=ExperimentConfig.total_frames = 4000',
      variables={'NOTES': str(notes), 'CUDA_VISIBLE_DEVICES': '3'}, check=True)
  seen = [json.loads(line) for line in notes.read_text().splitlines()]
  by_role = {role: visible for arguments, visible in seen
             for role in ('learner', 'actor', 'evaluator') if role in arguments}
  assert by_role == {'learner': '3', 'actor': '', 'evaluator': ''}
