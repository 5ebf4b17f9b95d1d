#!/usr/bin/env bash
# Trains populations: runs that copy the better ones; the same command resumes.
# Usage: launch/population.sh FILE.gin --population_dir=DIR [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf population "$@"
