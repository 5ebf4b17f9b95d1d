#!/usr/bin/env bash
# LASER on small tasks: capacities of the replay; see docs/laser.md.
# Usage: launch/reproduce/laser_capacity.sh [SWEEP_DIR]; half an hour on 2 cores.
# Without SWEEP_DIR: runs/laser_capacity. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" laser_capacity curves "$@"
