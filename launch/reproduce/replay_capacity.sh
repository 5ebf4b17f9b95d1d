#!/usr/bin/env bash
# How much a replay should hold: learning curves on four small tasks, ten seeds.
# Usage: launch/reproduce/replay_capacity.sh [SWEEP_DIR]; 25 minutes on 2 cores.
# Without SWEEP_DIR: runs/replay_capacity. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" replay_capacity curves "$@"
