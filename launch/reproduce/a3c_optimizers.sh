#!/usr/bin/env bash
# Figure S5 of Mnih et al. 2016: returns over learning rates, by optimiser, and ranked.
# Usage: launch/reproduce/a3c_optimizers.sh [SWEEP_DIR]; about 40 minutes on 2 cores.
# Without SWEEP_DIR: runs/a3c_optimizers. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
display="$(dirname "${BASH_SOURCE[0]}")/display.sh"
"$display" a3c_optimizers rates "$@"
exec "$display" a3c_optimizers ranks "$@"
