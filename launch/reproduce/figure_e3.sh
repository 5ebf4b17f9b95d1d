#!/usr/bin/env bash
# Figure E.3 of the paper: v_{s+1} or V(x_{s+1}); the same runs as table2.sh.
# Usage: launch/reproduce/figure_e3.sh [SWEEP_DIR]; some 3 hours on 2 cores, if they are not there.
# Without SWEEP_DIR: runs/corrections. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" corrections figure_e3 "$@"
