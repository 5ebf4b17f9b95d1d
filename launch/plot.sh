#!/usr/bin/env bash
# Draws learning curves of one or more runs to a PNG.
# Usage: launch/plot.sh RUN_DIR... [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf plot "$@"
