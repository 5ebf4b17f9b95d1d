#!/usr/bin/env bash
# Draws scores and learning curves of one or more runs, level by level.
# Usage: launch/report.sh RUN_DIR... [--output=DIRECTORY]

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf report "$@"
