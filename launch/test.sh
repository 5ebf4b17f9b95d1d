#!/usr/bin/env bash
# Lints and runs the tests.
# Usage: launch/test.sh [--slow] [pytest's arguments; paths from the root]
#   --slow  also runs the tests marked `slow`.

set -euo pipefail

markers=()
if [[ "${1:-}" == --slow ]]; then
  markers=(-m 'slow or not slow')
  shift
fi

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

"$PYTHON" -m ruff check --quiet

# One process a core. More than 8 spend their time importing TensorFlow.
workers="$(nproc)"
if ((workers > 8)); then workers=8; fi
# worksteal: a file's tests stay together, sharing what they compile, until a
# process runs out of work; and a test that hangs is not tried again.
exec "$PYTHON" -m pytest --quiet --numprocesses "$workers" --dist worksteal \
  "${markers[@]}" "$@"
