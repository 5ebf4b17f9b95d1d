#!/usr/bin/env bash
# Writes a run's agent, without the optimiser, into a directory to share.
# Usage: launch/export.sh RUN_DIR OUTPUT [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf export "$@"
