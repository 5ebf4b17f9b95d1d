#!/usr/bin/env bash
# Shows a run (or a directory of runs) in TensorBoard.
# Usage: launch/tensorboard.sh RUN_DIR [TensorBoard's flags, such as --port=6006]

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/usage.sh"
if asks_for_help "$@"; then
  print_usage
  exit
fi
if [[ "${1:-}" == -* ]]; then refuse "RUN_DIR comes before the flag $1"; fi
if [[ $# -eq 0 || ! ( -d "$1" || "$1" == *://* ) ]]; then
  refuse "there is no run directory '${1:-}'; give RUN_DIR first"
fi

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
exec "$PYTHON" -m tensorboard.main --logdir "$1" "${@:2}"
