#!/usr/bin/env bash
# Figures 2 and S11 of Mnih et al. 2016: returns over learning rates, by method.
# Usage: launch/reproduce/a3c_rates.sh [SWEEP_DIR]; about an hour on 2 cores.
# Without SWEEP_DIR: runs/a3c_rates. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" a3c_rates rates "$@"
