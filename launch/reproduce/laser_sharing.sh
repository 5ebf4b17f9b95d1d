#!/usr/bin/env bash
# Figures 1 and 3 left of Schmitt et al. 2020: agents without, with own, with shared replay.
# Usage: launch/reproduce/laser_sharing.sh [SWEEP_DIR]; hours on 2 cores.
# Without SWEEP_DIR: runs/laser_sharing; a game of Atari goes to SWEEP_DIR_atari.
# Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
display="$(dirname "${BASH_SOURCE[0]}")/display.sh" dir="${1:-runs/laser_sharing}"
"$display" laser_sharing best_agents "$dir"
exec "$display" laser_sharing_atari best_agents "${dir}_atari"
