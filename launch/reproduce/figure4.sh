#!/usr/bin/env bash
# Figure 4 of the paper: learning curves of A3C, batched A2C and IMPALA, and stability.
# Usage: launch/reproduce/figure4.sh [DIR [SWEEP.gin]]; an hour and a half on 2 cores.
# Without DIR: runs/figure_4; without SWEEP.gin: configs/sweeps/figure_4.gin. Interrupted, the
# same command goes on.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 2 "$@"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../setup.sh"
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
dir="${1:-runs/figure_4}" sweep="${2:-configs/sweeps/figure_4.gin}"
# 1 says that some runs failed: they are named, and the display shows the rest.
"$launch/sweep.sh" "$sweep" --sweep_dir="$dir/settings" || (($? == 1))
"$PYTHON" -m lab.figures ranks "$dir/settings"
"$PYTHON" -m lab.figures.best "$dir/settings" "$dir/best" --seeds=3
"$launch/sweep.sh" "$dir/best/sweep.gin" --sweep_dir="$dir/seeds" || (($? == 1))
exec "$PYTHON" -m lab.figures figure_4 "$dir/seeds"
