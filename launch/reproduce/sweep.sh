#!/usr/bin/env bash
# Runs a sweep, as far as it has not been run yet, and draws displays from it.
# Usage: launch/reproduce/sweep.sh SWEEP [SWEEP_DIR [DISPLAY]...]
# SWEEP is a file's name in configs/sweeps/; its head says how long it takes. Without
# SWEEP_DIR: runs/SWEEP. Without DISPLAY: those of the paper for corrections (table 2 and
# figures E.2 and E.3), figure_e1, a3c_rates, a3c_optimizers, a3c_speedup, laser_rho,
# laser_sharing and laser_sharing_atari; a table and bars for bias_correction, large_values,
# small_tasks and vizdoom_basic; learning curves for all others.
# `python -m lab.figures --help` lists all displays. Interrupted, the same command goes on.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 100 "$@"
if (($# == 0)); then refuse 'SWEEP is needed'; fi
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
sweep="$1" sweep_dir="${2:-runs/$1}" displays=("${@:3}")
config="configs/sweeps/$sweep.gin"
if [[ ! -f "$launch/../$config" ]]; then
  refuse "there is no file $config"
fi
if ((${#displays[@]} == 0)); then
  case "$sweep" in
    corrections) displays=(table_2 figure_e2 figure_e3) ;;
    figure_e1) displays=(figure_e1 lags) ;;
    a3c_rates) displays=(rates) ;;
    a3c_optimizers) displays=(rates ranks) ;;
    a3c_speedup) displays=(speedup) ;;
    laser_rho | laser_sharing | laser_sharing_atari) displays=(best_agents) ;;
    bias_correction | large_values | small_tasks | vizdoom_basic) displays=(variants) ;;
    *) displays=(curves) ;;
  esac
fi
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../setup.sh"
# 1 says that some runs failed: they are named, and the displays show the rest.
"$launch/sweep.sh" "$config" --sweep_dir="$sweep_dir" || (($? == 1))
for display in "${displays[@]}"; do
  "$PYTHON" -m lab.figures "$display" "$sweep_dir"
done
