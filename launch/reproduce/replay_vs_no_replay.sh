#!/usr/bin/env bash
# Pong without replay, with as many updates, and with 50 % replay, five seeds each.
# Usage: launch/reproduce/replay_vs_no_replay.sh [SWEEP_DIR]; 80 minutes on 2 cores.
# Without SWEEP_DIR: runs/replay_pong. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" replay_pong curves "$@"
