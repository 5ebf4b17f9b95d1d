"""Times exported updates of the learner on JAX's first device.

  python run.py DIR [--seconds=3] [--minutes=8]

It needs Python >= 3.11, NumPy and JAX (0.10 or 0.11) alone. DIR is what
`lab.gpu_step.export` wrote. For each program, the most important first, it
compiles, and compares one update with TensorFlow's. It times updates, whose
variables stay on the device, and copies of batches from host memory.
DIR/results.json and DIR/results.md are written anew after each.

JAX has no public call for a program in HLO; jaxlib's own is used.
"""

import argparse
import functools
import glob
import gzip
import json
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any, Callable, Mapping, Sequence

import numpy as np

RECORDED_STEPS = 100
RECORDED_UNROLLS = 128
_NUM_SAMPLES = 256  # Elements of each variable that are compared.
_NUM_KERNELS = 10
_PROFILED_UPDATES = 5
_TOLERANCES = {'float32': 1e-4, 'mixed_bfloat16': 3e-2}


def draw(entry: Mapping[str, Any], index: int) -> np.ndarray:
  """Draws the values of the program's input number `index`.

  `RandomState` is frozen: every NumPy draws the same.
  """
  if 'fill' in entry:
    return np.full(entry['shape'], entry['fill'], entry['dtype'])
  rng = np.random.RandomState(index)
  return (rng.standard_normal(entry['shape']) * entry['std']).astype(
      entry['dtype'])


def sample(value: np.ndarray, index: int) -> np.ndarray:
  """Picks the elements of variable `index` that are compared."""
  rng = np.random.RandomState(index)
  return value.reshape(-1)[rng.randint(value.size, size=_NUM_SAMPLES)]


def cut(array: np.ndarray, num_steps: int, num_unrolls: int) -> np.ndarray:
  """Cuts [T+n, B, ...] into shorter unrolls, [num_steps+n, num_unrolls, ...].

  Frames have n = S, all else n = 1. After the first B unrolls come their next
  pieces.
  """
  extra = array.shape[0] - RECORDED_STEPS
  pieces = [array[start:start + num_steps + extra] for start in range(
      0, RECORDED_STEPS - num_steps + 1, num_steps)]
  return np.ascontiguousarray(np.concatenate(pieces, axis=1)[:, :num_unrolls])


def _inputs(description: Mapping[str, Any], recorded: Mapping[str, np.ndarray]
            ) -> list[np.ndarray]:
  program = description['program']
  return [
      cut(recorded[entry['recorded']], program['unroll_length'],
          program['batch_size']) if 'recorded' in entry else draw(entry, i)
      for i, entry in enumerate(description['inputs'])]


def _compile(hlo: bytes, device: Any, updates: Sequence[int],
             num_metrics: int) -> Any:
  """Compiles a program whose outputs reuse the memory of updated variables."""
  from jax._src.interpreters import mlir
  from jax._src.lib.mlir import ir
  from jaxlib import _jax
  with mlir.make_ir_context():
    module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(hlo))
    function = next(operation for operation in module.body.operations
                    if operation.attributes['sym_name'].value == 'main')
    attributes = [dict((named.name, named.attr) for named in attribute)
                  for attribute in function.arg_attrs] if (
                      'arg_attrs' in function.attributes) else [
                          {} for _ in function.arguments]
    i32 = ir.IntegerType.get_signless(32)
    for output, i in enumerate(updates, num_metrics):
      attributes[i]['tf.aliasing_output'] = ir.IntegerAttr.get(i32, output)
    function.attributes['arg_attrs'] = ir.ArrayAttr.get(
        [ir.DictAttr.get(each) for each in attributes])
    return device.client.compile_and_load(
        module, _jax.DeviceList((device,)), _jax.CompileOptions())


class _Update:
  """A compiled update with its variables on the device."""

  def __init__(self, executable: Any, inputs: Sequence[Any],
               description: Mapping[str, Any]):
    self._executable = executable
    self.inputs = list(inputs)
    self._updates = description['updates']
    self._num_metrics = len(description['metrics'])

  def run(self) -> list[Any]:
    """Starts an update, stores the new variables, and returns all outputs."""
    outputs = self._executable.execute(self.inputs)
    if len(outputs) != self._num_metrics + len(self._updates):
      raise SystemExit(
          f'the program has {len(outputs)} outputs, not {self._num_metrics} '
          f'metrics and {len(self._updates)} variables')
    for i, value in zip(self._updates, outputs[self._num_metrics:]):
      self.inputs[i] = value
    return outputs


def _worst_difference(outputs: Sequence[Any], description: Mapping[str, Any]
                      ) -> float:
  """Returns the largest error relative to a variable's TensorFlow maximum."""
  expected, updates = description['expected'], description['updates']
  values = outputs[len(description['metrics']):]
  differences = []
  for i, value, wanted in zip(updates, values, expected['updates']):
    wanted = np.asarray(wanted)
    got = sample(np.asarray(value), i).astype(np.float64)
    differences.append(
        np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-12))
  return float(np.max(differences))  # NaN if any is.


def _median_secs(run: Callable[[], Any], secs: float, per_call: int = 1
                 ) -> float:
  """Returns the median seconds of calling `run`, divided by `per_call`."""
  run()
  times: list[float] = []
  end = time.perf_counter() + secs
  while time.perf_counter() < end or len(times) < 3:
    start = time.perf_counter()
    run()
    times.append((time.perf_counter() - start) / per_call)
  return statistics.median(times)


def _place(arrays: Sequence[Any], device: Any, memory_kind: str) -> list[Any]:
  """Starts copies of arrays to a device, or to host memory (`memory_kind`)."""
  import jax
  sharding = jax.sharding.SingleDeviceSharding(device, memory_kind=memory_kind)
  return [jax.device_put(array, sharding) for array in arrays]


def _longest_kernels(update: _Update) -> list[dict[str, Any]]:
  """Lists the kernels that take most of the device's time, in an update."""
  import jax
  with tempfile.TemporaryDirectory() as directory:
    with jax.profiler.trace(directory, create_perfetto_trace=True):
      for _ in range(_PROFILED_UPDATES):
        outputs = update.run()
      jax.block_until_ready(outputs)
    path, = glob.glob(f'{directory}/**/perfetto_trace.json.gz', recursive=True)
    with gzip.open(path, 'rt') as file:
      events = json.load(file)['traceEvents']
  devices = {event['pid'] for event in events
             if event.get('name') == 'process_name'
             and '/device:' in event['args']['name']}
  micros: dict[str, float] = {}
  for event in events:
    if event.get('ph') == 'X' and event['pid'] in devices:
      name = event['name']
      micros[name] = micros.get(name, 0.) + event['dur']
  longest = sorted(micros.items(), key=lambda item: -item[1])[:_NUM_KERNELS]
  return [{'kernel': name, 'ms': total / 1e3 / _PROFILED_UPDATES}
          for name, total in longest]


def measure(directory: pathlib.Path, name: str,
            recorded: Mapping[str, np.ndarray], secs: float
            ) -> dict[str, Any]:
  """Compiles, checks and times one program; returns its numbers."""
  import jax
  device = jax.devices()[0]
  description = json.loads((directory / f'{name}.json').read_text())
  with gzip.open(directory / f'{name}.hlo.gz') as file:
    hlo = file.read()
  start = time.perf_counter()
  executable = _compile(
      hlo, device, description['updates'], len(description['metrics']))
  result: dict[str, Any] = {
      'program': name, 'compile_secs': time.perf_counter() - start}
  arrays = _inputs(description, recorded)
  update = _Update(executable, _place(arrays, device, 'device'), description)
  outputs = update.run()
  if 'expected' in description:
    worst = _worst_difference(outputs, description)
    result['worst_difference'] = worst
    result['agrees'] = worst <= _TOLERANCES[description['program']['precision']]

  def chained(number: int):
    for _ in range(number):
      outputs = update.run()
    jax.block_until_ready(outputs)

  single = _median_secs(functools.partial(chained, 1), 0.2)
  number = max(1, round(0.2 / single))
  step_secs = _median_secs(functools.partial(chained, number), secs, number)
  of_batch = [i for i, entry in enumerate(description['inputs'])
              if 'recorded' in entry]
  host = jax.block_until_ready(
      _place([arrays[i] for i in of_batch], device, 'pinned_host'))
  copy_secs = _median_secs(
      lambda: jax.block_until_ready(_place(host, device, 'device')), secs / 2)

  def overlapped():
    following = _place(host, device, 'device')
    outputs = update.run()
    jax.block_until_ready((outputs, following))
    for i, array in zip(of_batch, following):
      update.inputs[i] = array

  both_secs = _median_secs(overlapped, secs)
  frames = description['frames']
  result.update(
      update_ms=step_secs * 1e3, copy_ms=copy_secs * 1e3,
      overlapped_ms=both_secs * 1e3, frames_per_sec=frames / step_secs,
      frames_per_sec_with_copy=frames / both_secs)
  memory = device.memory_stats() or {}
  if 'peak_bytes_in_use' in memory:  # Of all programs so far.
    result['peak_mib'] = memory['peak_bytes_in_use'] / 2**20
  if device.platform != 'cpu':
    result['longest_kernels'] = _longest_kernels(update)
  return result


def _table(device: str, results: Sequence[Mapping[str, Any]]) -> str:
  """Returns the results as Markdown."""
  lines = [f'Device: {device}', '',
           '| program | ms an update | frames/s | with its copy | copy, ms | '
           'compiled in, s | off TensorFlow by |',
           '|---|---|---|---|---|---|---|']
  for row in results:
    if 'error' in row:
      lines.append(f'| {row["program"]} | {row["error"]} | | | | | |')
      continue
    off = row.get('worst_difference')
    lines.append(
        f'| {row["program"]} | {row["update_ms"]:.2f} | '
        f'{row["frames_per_sec"]:,.0f} | '
        f'{row["frames_per_sec_with_copy"]:,.0f} | {row["copy_ms"]:.2f} | '
        f'{row["compile_secs"]:.1f} | '
        f'{"not compared" if off is None else f"{off:.1e}"} |')
  for row in results:
    if row.get('longest_kernels'):
      lines += ['', f'{row["program"]}, longest kernels of an update:', '']
      lines += [f'- {kernel["ms"]:.3f} ms `{kernel["kernel"]}`'
                for kernel in row['longest_kernels']]
  return '\n'.join(lines) + '\n'


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument('directory', type=pathlib.Path)
  parser.add_argument('--seconds', type=float, default=3.,
                      help='of each timing')
  parser.add_argument('--minutes', type=float, default=8.,
                      help='after which no further program begins')
  args = parser.parse_args()
  end = time.monotonic() + 60 * args.minutes
  os.environ.setdefault('JAX_ENABLE_X64', '1')  # Counts are int64.
  import jax
  device = jax.devices()[0].device_kind
  recorded = dict(np.load(args.directory / 'unrolls.npz'))
  results: list[dict[str, Any]] = []
  failed = False
  for name in (args.directory / 'programs.txt').read_text().split():
    if time.monotonic() > end:
      break
    try:
      results.append(measure(args.directory, name, recorded, args.seconds))
    except Exception as error:  # One that does not fit leaves the others.
      results.append(
          {'program': name, 'error': str(error).partition('\n')[0][:200]})
    failed |= not results[-1].get('agrees')
    (args.directory / 'results.json').write_text(json.dumps(
        {'device': device, 'jax': jax.__version__, 'results': results},
        indent=1))
    (args.directory / 'results.md').write_text(_table(device, results))
  print(_table(device, results))
  if failed:
    raise SystemExit(
        'a program failed, or is further off TensorFlow than it may be')


if __name__ == '__main__':
  main()
