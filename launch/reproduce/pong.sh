#!/usr/bin/env bash
# Reproduces the Pong result of docs/results.md: training, evaluation over 200 games, curve.
# Usage: launch/reproduce/pong.sh [RUN_DIR]; half an hour on 2 cores with AMX.
# Without RUN_DIR: runs/reproduce_pong. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 1 "$@"
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" configs/atari/pong.gin \
  "${1:-runs/reproduce_pong}"
