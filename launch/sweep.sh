#!/usr/bin/env bash
# Trains many settings, variants, tasks and seeds; the same command resumes.
# Usage: launch/sweep.sh SWEEP.gin --sweep_dir=DIR [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf sweep "$@"
