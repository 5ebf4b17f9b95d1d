#!/usr/bin/env bash
# Reproduces the result of one run: training, evaluation over 200 games, curve.
# Usage: launch/reproduce/run.sh CONFIG [RUN_DIR]
# CONFIG is a .gin file; its head says how long it takes. Without RUN_DIR:
# runs/reproduce_NAME, by the file's name. Interrupted, the same command goes on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 2 "$@"
if (($# == 0)); then refuse 'CONFIG is needed'; fi
launch="$(dirname "${BASH_SOURCE[0]}")/.."
run_dir="${2:-runs/reproduce_$(basename "$1" .gin)}"
"$launch/train.sh" "$1" --run_dir="$run_dir"
"$launch/evaluate.sh" "$run_dir" --episodes=200
"$launch/plot.sh" "$run_dir" --output="$run_dir/learning_curve.png"
