#!/usr/bin/env bash
# Plays whole games with a run's newest parameters and scores them.
# Usage: launch/evaluate.sh RUN_DIR [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf evaluate "$@"
