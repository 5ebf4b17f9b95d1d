#!/usr/bin/env bash
# LASER on small tasks: stale and recomputed LSTM states, priorities; see docs/laser.md.
# Usage: launch/reproduce/laser_lstm.sh [SWEEP_DIR]; half an hour on 2 cores.
# Without SWEEP_DIR: runs/laser_lstm. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" laser_lstm curves "$@"
