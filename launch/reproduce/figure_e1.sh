#!/usr/bin/env bash
# Figure E.1 of the paper: corrections at controlled policy lags; and final returns by lag.
# Usage: launch/reproduce/figure_e1.sh [SWEEP_DIR]; 15 minutes on 2 cores.
# Without SWEEP_DIR: runs/figure_e1. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
display="$(dirname "${BASH_SOURCE[0]}")/display.sh"
"$display" figure_e1 figure_e1 "$@"
exec "$display" figure_e1 lags "$@"
