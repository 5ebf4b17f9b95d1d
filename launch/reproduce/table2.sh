#!/usr/bin/env bash
# Table 2 of the paper: corrections with and without replay, on small tasks; and the methods
# over all tasks together.
# Usage: launch/reproduce/table2.sh [SWEEP_DIR]; some 3 hours on 2 cores.
# Without SWEEP_DIR: runs/corrections. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
display="$(dirname "${BASH_SOURCE[0]}")/display.sh"
"$display" corrections table_2 "$@"
exec "$display" corrections profiles "$@"
