#!/usr/bin/env bash
# Populations against the sweep of the same settings: two small tasks, three seeds.
# Usage: launch/reproduce/pbt.sh [DIR [FILE.gin]]; 20 minutes on 2 cores, and half an
# hour or more with the files of LASER.
# Without DIR: runs/pbt; without FILE.gin: configs/populations/pbt.gin. Interrupted, the
# same command goes on.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 2 "$@"
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../setup.sh"
dir="${1:-runs/pbt}" file="${2:-configs/populations/pbt.gin}"
# A place for each of a population's eight members, however few cores there are: they
# compare themselves with what the others are at the same time, and turns would cost
# the start of a run each.
# 1 says that some runs failed: they are named, and the display shows the rest.
"$launch/population.sh" "$file" --population_dir="$dir/population" --jobs=8 ||
  (($? == 1))
"$launch/sweep.sh" "$file" --sweep_dir="$dir/sweep" || (($? == 1))
exec "$launch/report.sh" "$dir/population" "$dir/sweep" --output="$dir/report"
