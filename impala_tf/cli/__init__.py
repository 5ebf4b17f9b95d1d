"""Programs that users run, one module each, and what they share.

May import `config`, `maths`, `storage`, `suites`, `sweeps`, `runtime`, `runs`,
`comms`, `envs`, `agents`, `algorithms`, `core`, `pbt`, `roles`, `plots` and
`ray_cluster`.
"""

import sys

# Before any module here imports TensorFlow, which it has switches for.
import impala_tf  # noqa: F401

_show_error = sys.excepthook


def _show_all_but_interrupts(kind, error, trace):
  """Leaves out where a program was that Ctrl-C has ended while it started."""
  if not issubclass(kind, KeyboardInterrupt):
    _show_error(kind, error, trace)


sys.excepthook = _show_all_but_interrupts
