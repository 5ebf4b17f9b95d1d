#!/usr/bin/env bash
# LASER on small tasks: replayed shares of each batch; see docs/laser.md.
# Usage: launch/reproduce/laser_share.sh [SWEEP_DIR]; hours on 2 cores.
# Without SWEEP_DIR: runs/laser_share. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" laser_share curves "$@"
