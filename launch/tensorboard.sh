#!/usr/bin/env bash
# Shows a run (or a directory of runs) in TensorBoard.
# Usage: launch/tensorboard.sh RUN_DIR [TensorBoard's flags]

set -euo pipefail

if [[ $# -eq 0 || ! ( -d "$1" || "$1" == *://* ) ]]; then
  echo "tensorboard.sh: there is no run directory '${1:-}';" \
    "usage: launch/tensorboard.sh RUN_DIR [--port=6006]" >&2
  exit 2
fi
run_dir="$1"
shift

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
exec "$ROOT/.venv/bin/tensorboard" --logdir "$run_dir" "$@"
