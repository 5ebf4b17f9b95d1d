#!/usr/bin/env bash
# Trains on a Ray cluster; without --ray_address it starts Ray on this machine.
# Usage: launch/cluster.sh --config=CONFIG.gin [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf cluster "$@"
