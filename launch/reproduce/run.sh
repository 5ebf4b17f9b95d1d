#!/usr/bin/env bash
# Reproduces the result of one run: training, evaluation over 200 games, curve.
# Usage: launch/reproduce/run.sh CONFIG [RUN_DIR [BINDING]...]
# CONFIG is a .gin file; its head says how long it takes. Each BINDING replaces a value
# of it, as in 'ExperimentConfig.total_frames = 8_000_000'. Without RUN_DIR: one in runs/
# that is named by the file's path below configs/. Interrupted, the same command goes on.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 100 "$@"
if (($# == 0)); then refuse 'CONFIG is needed'; fi
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
name="${1#*configs/}" name="${name%.gin}"
run_dir="${2:-runs/reproduce_${name//\//_}}"
bindings=("${@:3}")
"$launch/train.sh" "$1" --run_dir="$run_dir" "${bindings[@]/#/--gin_binding=}"
"$launch/evaluate.sh" "$run_dir" --episodes=200
"$launch/plot.sh" "$run_dir" --output="$run_dir/learning_curve.png"
