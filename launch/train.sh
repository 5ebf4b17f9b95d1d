#!/usr/bin/env bash
# Trains. Without arguments: Pong, into a fresh directory under runs/.
# Usage: launch/train.sh [CONFIG.gin] [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf train "$@"
