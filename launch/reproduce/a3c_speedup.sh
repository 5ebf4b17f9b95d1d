#!/usr/bin/env bash
# Table 2 of Mnih et al. 2016: speed-ups by 1, 2 and 4 workers, four methods.
# Usage: launch/reproduce/a3c_speedup.sh [SWEEP_DIR]; about half an hour on 2 cores.
# Without SWEEP_DIR: runs/a3c_speedup. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" a3c_speedup speedup "$@"
