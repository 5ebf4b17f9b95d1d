#!/usr/bin/env bash
# Measures what an agent step costs, in parts and as a whole.
# Usage: launch/benchmark.sh [--cores=N] [--config=FILE] [--flags]; --help lists
# them.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
exec "$PYTHON" -m launch.benchmark "$@"
