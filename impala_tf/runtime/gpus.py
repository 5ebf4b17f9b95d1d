"""GPUs: which process may see them, and whether TensorFlow can use them.

Only learners see GPUs: any other process would take memory of them. Standard
library only, since CUDA reads its variable as TensorFlow is imported.
"""

from importlib import metadata
import os
import re
import subprocess
from typing import NamedTuple, Sequence

from impala_tf import config as config_lib
from impala_tf.runtime import wording

_VISIBLE = 'CUDA_VISIBLE_DEVICES'
_QUERY = ('nvidia-smi', '--format=csv,noheader',
          '--query-gpu=name,driver_version,compute_cap')
_QUERY_SECS = 20.

_MIN_DRIVER = '525.60.13'  # Of CUDA 12, which TensorFlow 2.15 is built with.
_CAPABILITIES = (5, 0), (9, 0)  # For which TensorFlow 2.15 has code.


class Gpu(NamedTuple):
  """A GPU of this machine, as NVIDIA's driver describes it."""
  name: str
  driver: str  # Its version.
  capability: str  # What CUDA calls the compute capability.


def hide() -> None:
  """Hides all GPUs from TensorFlow in this process and its children."""
  os.environ[_VISIBLE] = ''


def take(index: int, number: int) -> None:
  """Restricts this process, learner `index` of `number`, to one GPU.

  A single learner keeps all. Raises ConfigError for 1 to `number` - 1 GPUs.
  """
  if number == 1:
    return
  gpus = found()
  if gpus and _obstacle(gpus):
    return
  names = _visible(len(gpus))
  if 0 < len(names) < number:
    raise config_lib.ConfigError(
        f'LearnerConfig.num_learners: {number} learners on a machine with '
        f'{wording.counted(len(names), "GPU")}, of which each needs one; have '
        f'fewer, or learn on the CPU with {_VISIBLE}=')
  if names:
    os.environ[_VISIBLE] = names[index]


def found() -> list[Gpu]:
  """Lists the GPUs that NVIDIA's driver reports; none without a driver."""
  try:
    output = subprocess.run(
        _QUERY, capture_output=True, text=True, timeout=_QUERY_SECS,
        check=True).stdout
  except (OSError, subprocess.SubprocessError):
    return []
  rows = [line.split(', ') for line in output.splitlines()]
  return [Gpu(*row) for row in rows if len(row) == len(Gpu._fields)]


def explain() -> str | None:
  """Describes the learner's devices in a line; None without GPUs."""
  gpus = found()
  if not gpus:
    return None
  names = _visible(len(gpus))
  if not names:
    return f'{_VISIBLE} hides all GPUs: learning on the CPU'
  obstacle = _obstacle(gpus)
  if obstacle:
    return f'{obstacle}: learning on the CPU; docs/gpu.md says more'
  kinds = ' or '.join(dict.fromkeys(gpu.name for gpu in gpus))
  return f'{wording.counted(len(names), "GPU")} to learn on: {kinds}'


def _visible(number: int) -> list[str]:
  """Lists the visible GPUs of `number`, as CUDA_VISIBLE_DEVICES names them."""
  if _VISIBLE not in os.environ:
    return [str(i) for i in range(number)]
  names = os.environ[_VISIBLE].split(',')
  # CUDA ends the list at the first that does not exist.
  bad = [i for i, name in enumerate(map(str.strip, names)) if not re.match(
      r'\d+$|GPU-|MIG', name) or name.isdecimal() and 0 < number <= int(name)]
  return names[:bad[0]] if bad else names


def _obstacle(gpus: Sequence[Gpu]) -> str:
  """Explains why TensorFlow cannot use the GPUs; '' if it can."""
  try:
    metadata.version('tensorflow')
  except metadata.PackageNotFoundError:  # tensorflow-cpu may be there.
    return ('TensorFlow is installed without CUDA (rm -f .venv/stamp; '
            'IMPALA_TF_EXTRA=gpu ./launch/setup.sh, or the extra gpu)')
  driver = gpus[0].driver
  if _numbers(driver) < _numbers(_MIN_DRIVER):
    return (f'the driver {driver} is older than {_MIN_DRIVER}, which CUDA 12 '
            'needs')
  for gpu in gpus:
    low, high = _CAPABILITIES
    if not low <= _numbers(gpu.capability) <= high:
      return (f'{gpu.name} has compute capability {gpu.capability}, but '
              'TensorFlow 2.15 is for 5.0 to 9.0')
  return ''


def _numbers(version: str) -> tuple[int, ...]:
  return tuple(int(part) for part in version.split('.') if part.isdecimal())
