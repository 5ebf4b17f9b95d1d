#!/usr/bin/env bash
# Catch at three learning rates, five seeds each, and the picture of docs/plots.md.
# Usage: launch/reproduce/catch.sh [RUNS_DIR]; some 5 minutes of one core.
# Without RUNS_DIR: runs/catch_rates, with a directory a run, and the picture in
# catch.png. Interrupted, the same command goes on.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 1 "$@"
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
runs_dir="${1:-runs/catch_rates}"
for learning_rate in 0.0005 0.002 0.008; do
  for seed in 1 2 3 4 5; do
    "$launch/train.sh" configs/tasks/catch.gin \
      --run_dir="$runs_dir/learning_rate_$learning_rate/seed_$seed" \
      --gin_binding="OptimizerConfig.learning_rate = $learning_rate" \
      --gin_binding="ExperimentConfig.seed = $seed" \
      --gin_binding='ExperimentConfig.log_interval_secs = 0.3'
  done
done
"$launch/plot.sh" "$runs_dir/*/*" --group_by=directory --output="$runs_dir/catch.png"
