#!/usr/bin/env bash
# Runs a sweep, as far as it has not been run yet, and draws a display from it.
# Usage: launch/reproduce/display.sh SWEEP DISPLAY [SWEEP_DIR]
# SWEEP is a file's name in configs/sweeps/, DISPLAY one of table_2, figure_e1, lags,
# figure_e2, figure_e3, profiles, curves, variants, best_agents, ranks, rates and speedup.
# Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 3 "$@"
if (($# < 2)); then refuse 'SWEEP and DISPLAY are needed'; fi
# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
sweep="$1" display="$2" sweep_dir="${3:-runs/$1}"
# 1 says that some runs failed: they are named, and the display shows the rest.
"$PYTHON" -m impala_tf sweep "configs/sweeps/$sweep.gin" \
  --sweep_dir="$sweep_dir" || (($? == 1))
exec "$PYTHON" -m lab.figures "$display" "$sweep_dir"
