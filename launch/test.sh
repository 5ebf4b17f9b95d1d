#!/usr/bin/env bash
# Lints and runs the tests.
# Usage: launch/test.sh [--all | --tensorflow=2.21] [pytest's arguments; paths
#   from the root]
#   alone          the first tier: lint, unit tests, a real Reverb, short programs
#   --all          all tests but soaks; without other arguments, those of
#                  --tensorflow=2.21, too
#   --tensorflow=2.21  of the first tier what needs no Reverb, with that
#                  TensorFlow, in an environment of its own, .venv-tf2.21 (Python 3.11)
#   --help         this text; pytest's own: launch/test.sh --all --help
# Some of pytest's arguments:
#   tests/maths/vtrace_test.py -k equation   some tests of a file
#   -m slow                                  the second tier alone
#   -m soak                                  soaks alone
#   tests/faults --chaos=20                  each fault 20 times, with figures

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/usage.sh"
arguments=("$@")
tier=()
newer=''
case "${1:-}" in
  -h | --help)
    print_usage
    exit
    ;;
  --all)
    tier=(-m 'not soak')
    shift
    ;;
  --tensorflow=2.21)
    newer='tf2.21'
    shift
    ;;
  --tensorflow*) refuse "${1:-} is no version that is tested; use 2.21" ;;
esac

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/setup.sh"
cd "$ROOT"

{
  "$PYTHON" -m ruff check --quiet && "$PYTHON" -m mypy --no-error-summary &&
    "$PYTHON" -m lab.prose impala_tf lab tests docs configs examples \
      testdata/*/README.md ./*.md
} || {
  echo 'launch/test.sh: lint failed, no test was run' >&2
  exit 1
}

# Makes the environment of a newer TensorFlow, if that has not been done yet.
if [[ -n "$newer" ]]; then
  venv="$ROOT/.venv-$newer" constraints="$ROOT/constraints-$newer.txt"
  made_from="$(sha256sum < "$constraints") $ROOT"
  if [[ "$(cat "$venv/stamp" 2> /dev/null)" != "$made_from" ]]; then
    say "making $venv with the packages of $constraints; this takes some minutes"
    rm -rf "$venv"
    mkdir "$venv"
    logged "$venv/setup.log" "$PYTHON" -m venv "$venv"
    logged "$venv/setup.log" "$venv/bin/python" -m pip install \
      --disable-pip-version-check -r "$constraints"
    echo "$made_from" > "$venv/stamp"
  fi
  PYTHON="$venv/bin/python"
fi

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
code=0
"$PYTHON" -c "$run_pytest" --quiet --numprocesses "$workers" \
  --dist worksteal "${tier[@]}" "$@" || code=$?
if [[ "${arguments[*]}" == --all ]]; then
  "$ROOT/launch/test.sh" --tensorflow=2.21 || code=$?
fi
exit "$code"
