"""Reports of benchmarks, as tables for people."""

from typing import Any, Sequence

import rich.box
import rich.console
import rich.table

from lab.bench import measure

_PARTS = {
    'emulator': 'emulator alone (part of the environment)',
    'environment': 'environment',
    'inference': 'inference',
    'fetch': 'parameters, actor\'s end',
    'assembly': 'unroll assembly',
    'write': 'Reverb, actor\'s end',
    'read': 'Reverb and tf.data, learner\'s end',
    'learner': 'learner step',
    'publish': 'parameters, learner\'s end',
}


def _table(*columns: str) -> rich.table.Table:
  table = rich.table.Table(box=rich.box.SIMPLE)
  for i, column in enumerate(columns):
    table.add_column(column, justify='right' if i else 'left', no_wrap=True)
  return table


def _print(table: rich.table.Table) -> None:
  # Not cut to the width of the terminal.
  rich.console.Console(width=160, highlight=False).print(table)


def show(result: measure.Result) -> None:
  """Prints the results of one setting in full."""
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
      ('ratio of the two (goal 0.90)', f'{result["ratio"]:.3f}'),
      *((f'frames/s of {number} such cores, computed', f'{speed:,.0f}')
        for number, speed in result['computed_frames_per_sec'].items()),
      ('idle share of the cores', f'{result["idle_share"]:.3f}'),
      ('share of the cores that the host took for others',
       f'{result["stolen_share"]:.3f}'),
      ('CPU-seconds per 1,000 frames',
       f'{result["cpu_secs_per_1000_frames"]:.3f}'),
      ('share of the cores that other processes took',
       f'{result["others_share"]:.3f}'),
      ('policy lag (updates, mean)',
       f'{result["policy_lag_updates_mean"]:.2f}'),
      ('learner\'s time spent waiting', f'{result["learner_wait_share"]:.3f}'),
      ('memory of all processes (peak, MiB)', f'{result["peak_pss_mib"]:,.0f}'),
      ('start to first update (s; goal 8)',
       f'{result["start_to_first_update_secs"]:.1f}'),
      ('data plane alone, frames/s',
       f'{result["data_plane_frames_per_sec"]:,.0f}')):
    table.add_row(name, str(value))
  _print(table)

  table = _table('in force on this machine', '')
  for name, value in result['speedups'].items():
    table.add_row(name, value)
  _print(table)


def show_peer(results: dict[str, dict[str, float]]) -> None:
  """Prints the speeds of two trainings, and the ratio of second to first."""
  names = list(results)
  table = _table('', *names, 'times')
  for title, name, form in (
      ('frames/s', 'frames_per_sec', ',.0f'),
      ('CPU-seconds per 1,000 frames', 'cpu_secs_per_1000_frames', '.3f')):
    values = [results[n][name] for n in names]
    table.add_row(title, *(format(value, form) for value in values),
                  f'{values[1] / values[0]:.2f}')
  _print(table)


def show_levels(rows: Sequence[dict[str, Any]]) -> None:
  """Prints a table with a line for each level, see `levels.summarise`."""
  table = _table('', 'steps/s', 'with resets', 'reset (s)', 'worst',
                 'CPU-ms a step', 'CPU-s a reset', 'MiB', 'episode', 'return')
  errors = []
  for row in rows:
    if 'error' in row:
      errors.append(row['error'])
      continue
    table.add_row(
        row['level'], f'{row["steps_per_sec"]:,.0f}',
        f'{row["steps_per_sec_with_resets"]:,.0f}',
        f'{row["reset_secs_median"]:.2f}', f'{row["reset_secs_worst"]:.2f}',
        f'{row["step_cpu_ms"]:.2f}', f'{row["reset_cpu_secs_median"]:.2f}',
        f'{row["mib"]:,.0f}', f'{row["episode_steps"]:,.0f}',
        f'{row["episode_return"]:.2f} ± {row["return_standard_error"]:.2f}')
  if table.row_count:
    _print(table)
  for error in errors:
    print(error, flush=True)


def show_table_1(title: str, rows: dict[str, dict[str, Any]]) -> None:
  """Prints the rows of one task beside the paper's, see `table_1`."""
  table = _table(title, 'frames/s', '÷ IMPALA', 'from, to', 'CPU-s per 1,000',
                 'cores', 'lag', 'MiB', 'paper (CPU/GPU)',
                 # The paper's with as many GPUs; ours is one for all rows.
                 '÷ its IMPALA')
  for row in rows.values():
    lag = row['policy_lag_updates']
    table.add_row(
        row['title'], f'{row["frames_per_sec"]:,.0f}', f'{row["ratio"]:.2f}',
        f'{row["ratio_low"]:.2f} to {row["ratio_high"]:.2f}',
        f'{row["cpu_secs_per_1000_frames"]:.3f}', f'{row["cores"]:.2f}',
        '–' if lag is None else f'{lag:.2f}', f'{row["mib"]:,.0f}',
        f'{row["paper_frames_per_sec"]:,.0f} '
        f'({row["paper_cpus"]}/{row["paper_gpus"]})',
        f'{row["paper_ratio"]:.2f}')
  _print(table)
