"""What was measured, as tables for people."""

from typing import Sequence

import rich.box
import rich.console
import rich.table

from launch.benchmark import measure

_PARTS = {
    'emulator': 'emulator alone (part of the environment)',
    'environment': 'environment',
    'inference': 'inference',
    'assembly': 'unroll assembly',
    'write': 'Reverb, actor\'s end',
    'read': 'Reverb and tf.data, learner\'s end',
    'learner': 'learner step',
}


def _table(*columns: str) -> rich.table.Table:
  table = rich.table.Table(box=rich.box.SIMPLE)
  for i, column in enumerate(columns):
    table.add_column(column, justify='right' if i else 'left', no_wrap=True)
  return table


def _print(table: rich.table.Table) -> None:
  # As wide as it is, whatever the terminal.
  rich.console.Console(width=140, highlight=False).print(table)


def show(result: measure.Result) -> None:
  """Prints one setting in full."""
  parts = result['parts_cpu_ms_per_step']
  environment = parts['environment']
  table = _table(result['setting'], 'CPU-ms a step', '÷ environment')
  for name, cost in parts.items():
    table.add_row(_PARTS[name], f'{cost:.4f}', f'{cost / environment:.3f}')
  table.add_section()
  for name, cost in (
      ('sum of parts', result['sum_cpu_ms_per_step']),
      *((f'whole: {role}', cost)
        for role, cost in result['cpu_ms_per_step'].items()),
      *((f'{role}: beyond their parts', cost)
        for role, cost in result['extra_cpu_ms_per_step'].items())):
    table.add_row(name, f'{cost:.4f}', f'{cost / environment:.3f}')
  _print(table)

  table = _table(f'{result["cores"]} of {result["machine"]}', '')
  for name, value in (
      ('actor processes × environments',
       f'{result["num_actors"]} × {result["num_envs"]}'),
      ('learner threads', result['learner_threads']),
      ('frames/s that the sum of parts allows',
       f'{result["allowed_frames_per_sec"]:,.0f}'),
      (f'frames/s, over {result["measured_secs"]:.0f} s of training',
       f'{result["frames_per_sec"]:,.0f}'),
      ('ratio', f'{result["ratio"]:.3f}'),
      ('idle share of the cores', f'{result["idle_share"]:.3f}'),
      ('share of the cores that the host took for others',
       f'{result["stolen_share"]:.3f}'),
      ('CPU-seconds per 1,000 frames',
       f'{result["cpu_secs_per_1000_frames"]:.3f}'),
      ('policy lag (updates, mean)',
       f'{result["policy_lag_updates_mean"]:.2f}'),
      ('learner\'s time spent waiting', f'{result["learner_wait_share"]:.3f}'),
      ('memory of all processes (peak, MiB)',
       f'{result["peak_rss_mib"]:,.0f}'),
      ('start to first update (s)',
       f'{result["start_to_first_update_secs"]:.1f}'),
      ('data plane alone, frames/s',
       f'{result["data_plane_frames_per_sec"]:,.0f}')):
    table.add_row(name, str(value))
  _print(table)


def show_scaling(results: Sequence[measure.Result]) -> None:
  """Prints one line for each of several settings."""
  table = _table('', 'frames/s', 'ratio', 'CPU-s per 1,000', 'lag',
                 'learner waits', 'MiB')
  for result in results:
    table.add_row(
        result['setting'], f'{result["frames_per_sec"]:,.0f}',
        f'{result["ratio"]:.2f}', f'{result["cpu_secs_per_1000_frames"]:.3f}',
        f'{result["policy_lag_updates_mean"]:.1f}',
        f'{result["learner_wait_share"]:.0%}', f'{result["peak_rss_mib"]:,.0f}')
  _print(table)
