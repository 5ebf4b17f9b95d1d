"""Writes the learner's update as XLA programs that JAX runs without TensorFlow.

  python -m lab.gpu_step.export OUT_DIR [NAME ...]

A program is what the learner compiles: re-stacking of frames, network, V-trace,
gradients, clipping, RMSProp. OUT_DIR gets, for each:

    NAME.hlo.gz     the program, HLO as a protocol buffer
    NAME.json       inputs and outputs, and TensorFlow's results of one update
    unrolls.npz     recorded unrolls, of which each program takes the first
                    steps of the first unrolls; once for all
    run.py          times them; needs Python >= 3.11, NumPy and JAX alone

Variables are not written: `run.py` draws them anew by the same frozen generator
of NumPy. Of TensorFlow's results there are some elements of each variable.
"""

import argparse
import gzip
import json
import pathlib
import shutil
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from impala_tf import config as config_lib
from impala_tf import types
from impala_tf.core import experiment
from impala_tf.core import learner as learner_lib
from impala_tf.runs import gin_config
from lab.bench import parts
from lab.gpu_step import run

_CONFIG = 'configs/benchmark.gin'
_CPU = '/CPU:0'
# More frames do not fit into the memory of a machine that exports.
_MAX_CHECKED_FRAMES = {'shallow': 13_000, 'deep': 1_300}


class Program(NamedTuple):
  """An update to export; T and B are as in the paper."""
  network: str
  use_lstm: bool
  unroll_length: int
  batch_size: int
  precision: str

  @property
  def name(self) -> str:
    memory = '_lstm' if self.use_lstm else ''
    return (f'{self.network}{memory}_t{self.unroll_length}_b{self.batch_size}_'
            f'{self.precision}')


# The most important first: `run.py` has eight minutes.
PROGRAMS = {program.name: program for program in [
    Program('shallow', False, 20, 32, 'float32'),
    Program('shallow', False, 20, 32, 'mixed_bfloat16'),
    Program('deep', True, 100, 32, 'mixed_bfloat16'),
    Program('deep', True, 100, 32, 'float32'),
    Program('shallow', False, 20, 128, 'mixed_bfloat16'),
    Program('shallow', False, 20, 512, 'mixed_bfloat16'),
    Program('shallow', True, 20, 32, 'float32'),
    Program('shallow', True, 100, 32, 'mixed_bfloat16'),
    Program('shallow', False, 20, 128, 'float32'),
    Program('shallow', False, 20, 512, 'float32'),
    Program('deep', False, 20, 32, 'float32'),
    Program('deep', False, 20, 32, 'mixed_bfloat16'),
    Program('deep', True, 20, 32, 'float32'),
    Program('deep', True, 100, 128, 'mixed_bfloat16')]}


def _config(program: Program) -> config_lib.Config:
  return gin_config.load(_CONFIG).replaced(
      'agent', torso=program.network, use_lstm=program.use_lstm).replaced(
          'actor', num_actors=1, num_envs=32, env_processes=None).replaced(
              'learner', batch_size=program.batch_size, xla='on',
              unroll_length=program.unroll_length, precision=program.precision)


def _record() -> dict[str, np.ndarray]:
  """Plays Pong with an untrained agent; returns arrays [T+1, B, ...] by name.

  Frames are [T+S, B, H, W], each once.
  """
  config = _config(Program(
      'shallow', False, run.RECORDED_STEPS, run.RECORDED_UNROLLS, 'float32'))
  unrolls = [unroll.unroll for unroll in parts.record_unrolls(
      config, run.RECORDED_UNROLLS)][:run.RECORDED_UNROLLS]
  steps = [unroll.env_outputs._asdict() | unroll.agent_outputs._asdict()
           for unroll in unrolls]
  return {name: np.stack([step[name] for step in steps], axis=1)
          for name, array in steps[0].items() if isinstance(array, np.ndarray)}


def _variable_input(variable: tf.Variable) -> dict[str, Any]:
  """Returns shape, dtype and spread from which to draw a variable's values."""
  value = variable.numpy()
  entry = {'name': variable.name, 'shape': value.shape,
           'dtype': value.dtype.name}
  if np.all(value == value.flat[0]):
    return {**entry, 'fill': value.flat[0].item()}
  return {**entry, 'std': float(value.std())}


def _unroll_inputs(unroll: types.Unroll) -> list[dict[str, Any]]:
  """Describes the arrays of a batch in the order of the program's inputs."""
  names = types.Unroll(
      types.EnvOutput(*types.EnvOutput._fields),
      types.AgentOutput(*types.AgentOutput._fields), None, None, None)
  steps = [name for group in (0, 1)
           for name, value in zip(names[group], unroll[group])
           if not isinstance(value, tuple)]
  shapes = [(tensor.shape.as_list(), tensor.dtype.name)
            for tensor in tf.nest.flatten(unroll)]
  # Memory, version and level are zero.
  steps += [''] * (len(shapes) - len(steps))
  return [{'name': name, 'shape': shape, 'dtype': dtype,
           **({'recorded': name} if name else {'fill': 0})}
          for name, (shape, dtype) in zip(steps, shapes)]


def _batch(learner: learner_lib.Learner, config: config_lib.Config,
           program: Program, recorded: dict[str, np.ndarray]) -> types.Unroll:
  """Makes a time-major batch of the recorded unrolls."""
  num_steps, num_unrolls = program.unroll_length, program.batch_size
  fields = {name: tf.constant(run.cut(array, num_steps, num_unrolls))
            for name, array in recorded.items()}
  env_outputs = types.EnvOutput(
      **{name: fields[name] for name in types.EnvOutput._fields
         if name in fields})
  return types.Unroll(
      env_outputs,
      types.AgentOutput(*(fields[name] for name in types.AgentOutput._fields)),
      learner.agent.initial_state(num_unrolls),
      policy_version=tf.zeros([num_unrolls], tf.int64),
      level_index=tf.zeros([num_unrolls], tf.int32))


def _export(program: Program, recorded: dict[str, np.ndarray],
            directory: pathlib.Path) -> None:
  """Writes one program (HLO) and its description (JSON) to `directory`."""
  config = _config(program)
  learner = experiment.make_learner(
      config, experiment.make_probe_environment(config),
      tf.distribute.OneDeviceStrategy(_CPU))

  @tf.function(jit_compile=True, autograph=False)
  def step(unroll: types.Unroll) -> dict[str, tf.Tensor]:
    gradients = learner.gradients(unroll)
    return {**gradients.metrics, **learner.apply(gradients)}

  unroll = _batch(learner, config, program, recorded)
  concrete = step.get_concrete_function(unroll)
  captured = [_variable_of(learner, handle)
              for handle in concrete.captured_inputs]
  inputs = [*_unroll_inputs(unroll), *map(_variable_input, captured)]
  updated = [*learner.agent.trainable_variables, *learner.optimizer.variables]
  first = len(inputs) - len(captured)
  updates = [first + i for i, variable in enumerate(captured)
             if any(variable is other for other in updated)]
  description: dict[str, Any] = {
      'program': program._asdict(),
      'frames': (config.atari.action_repeats * program.unroll_length *
                 program.batch_size),
      'inputs': inputs,
      'metrics': sorted(concrete.structured_outputs),
      # Input that each output after the metrics is the next value of.
      'updates': updates}
  hlo = step.experimental_get_compiler_ir(unroll)(
      stage='hlo_serialized', device_name=_CPU)
  with gzip.open(directory / f'{program.name}.hlo.gz', 'wb') as file:
    file.write(hlo)
  if (program.unroll_length * program.batch_size
      <= _MAX_CHECKED_FRAMES[program.network]):
    description['expected'] = _expected(
        step, unroll, captured, inputs[first:], updates, first)
  (directory / f'{program.name}.json').write_text(json.dumps(description))


def _variable_of(learner: learner_lib.Learner, handle: tf.Tensor
                 ) -> tf.Variable:
  """Returns the learner's variable that has this handle."""
  variables = [*learner.agent.variables, *learner.optimizer.variables,
               *learner.hyperparameters.variables, learner.num_frames,
               learner.num_updates]
  return next(v for v in variables if v.handle is handle)


def _expected(step, unroll: types.Unroll, captured: list[tf.Variable],
              entries: list[dict[str, Any]], updates: list[int], first: int
              ) -> dict[str, Any]:
  """Computes one update from drawn variables; returns TensorFlow's results."""
  for i, (variable, entry) in enumerate(zip(captured, entries)):
    variable.assign(run.draw(entry, first + i))
  step(unroll)
  return {'updates': [
      run.sample(captured[i - first].numpy(), i).tolist() for i in updates]}


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument('directory', type=pathlib.Path)
  parser.add_argument('names', nargs='*', help='programs; all by default')
  args = parser.parse_args()
  unknown = set(args.names).difference(PROGRAMS)
  if unknown:
    parser.error(f'no program {unknown.pop()}; there are {", ".join(PROGRAMS)}')
  args.directory.mkdir(parents=True, exist_ok=True)
  recorded = _record()
  np.savez_compressed(args.directory / 'unrolls.npz', **recorded)
  shutil.copy(run.__file__, args.directory / 'run.py')
  for name in args.names or PROGRAMS:
    print(name, flush=True)
    _export(PROGRAMS[name], recorded, args.directory)
  names = '\n'.join(args.names or PROGRAMS)
  (args.directory / 'programs.txt').write_text(f'{names}\n')


if __name__ == '__main__':
  main()
