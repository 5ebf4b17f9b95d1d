#!/usr/bin/env bash
# LASER on a small task: clipping thresholds and trust regions with a shared replay; see
# docs/laser.md.
# Usage: launch/reproduce/laser_rho.sh [SWEEP_DIR]; half an hour on 2 cores.
# Without SWEEP_DIR: runs/laser_rho. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" laser_rho best_agents "$@"
