#!/usr/bin/env bash
# Measures what an agent step costs, in parts and as a whole.
# Usage: launch/benchmark.sh [CONFIG.gin] [--flags]; the config is by default that of
# train.sh, and --help lists all flags.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
exec "$PYTHON" -m lab.bench "$@"
