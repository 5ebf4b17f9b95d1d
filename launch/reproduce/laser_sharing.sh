#!/usr/bin/env bash
# Figures 1 and 3 left of Schmitt et al. 2020: agents without, with own, with shared replay.
# Usage: launch/reproduce/laser_sharing.sh [SWEEP_DIR]; hours on 2 cores.
# Without SWEEP_DIR: runs/laser_sharing. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" laser_sharing best_agents "$@"
