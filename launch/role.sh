#!/usr/bin/env bash
# Runs one role of a run on this machine: learner, actor, evaluator or replay.
# Usage: launch/role.sh ROLE --address=HOST:PORT [--flags]; --help lists them.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
IMPALA_TF_SCRIPTS="$(dirname "$0")" exec "$PYTHON" -m impala_tf role "$@"
