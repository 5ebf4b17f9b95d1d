#!/usr/bin/env bash
# Pong with one change of configs/few_frames.gin undone at a time, three seeds each.
# Usage: launch/reproduce/pong_one_change.sh [SWEEP_DIR]; an hour on 2 cores.
# Without SWEEP_DIR: runs/pong_one_change. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" pong_one_change curves "$@"
