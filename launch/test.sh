#!/usr/bin/env bash
# Lints and runs the tests.
# Usage: launch/test.sh [--all] [pytest's arguments; paths from the root]
#   without --all  the first tier: lint, unit tests, a real Reverb, short programs
#   --all          all tests but soaks
#   --help         this text; pytest's own: launch/test.sh --all --help
# Some of pytest's arguments:
#   tests/maths/vtrace_test.py -k equation   some tests of a file
#   -m slow                                  the second tier alone
#   -m soak                                  soaks alone
#   tests/faults --chaos=20                  each fault 20 times, with figures

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
tier=()
case "${1:-}" in
  -h | --help)
    print_usage
    exit
    ;;
  --all)
    tier=(-m 'not soak')
    shift
    ;;
esac

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

"$PYTHON" -m ruff check --quiet || {
  echo 'launch/test.sh: lint failed, no test was run' >&2
  exit 1
}

# pytest ends with 4 where it refuses its arguments, programs here with 2.
run_pytest='
import sys
import pytest
code = pytest.main(sys.argv[1:])
sys.exit(2 if code == pytest.ExitCode.USAGE_ERROR else code)'

# One process a core. More than 8 spend their time importing TensorFlow.
workers="$(nproc)"
if ((workers > 8)); then workers=8; fi
# worksteal: a file's tests stay together, sharing what they compile, until a
# process runs out of work; and a test that hangs is not tried again.
exec "$PYTHON" -c "$run_pytest" --quiet --numprocesses "$workers" \
  --dist worksteal "${tier[@]}" "$@"
