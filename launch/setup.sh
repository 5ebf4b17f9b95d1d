#!/usr/bin/env bash
# Makes .venv with the pinned packages, if that has not been done yet.
#
# The other scripts source it for $ROOT, $PYTHON and the environment it exports;
# it can also be run by itself. It never changes the working directory.

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="$ROOT/.venv/bin/python"

say() { echo "setup: $*" >&2; }

# Prints the first Python that can make virtual environments; ends with exit
# code 2 if there is none.
find_python() {
  local name without_venv=''
  for name in python3.11 python3.10 python3.9; do
    # Run it: a version manager's placeholder is on the PATH, but does not run.
    "$name" -c '' > /dev/null 2>&1 || continue
    if "$name" -c 'import ensurepip, venv' > /dev/null 2>&1; then
      echo "$name"
      return
    fi
    without_venv="${without_venv:-$name}"
  done
  if [[ -n "$without_venv" ]]; then
    say "$without_venv cannot make virtual environments (no ensurepip);" \
      "on Debian and Ubuntu: apt install $without_venv-venv"
  else
    say "no Python 3.11, 3.10 or 3.9 on the PATH; install one" \
      "(on Debian and Ubuntu: apt install python3.11 python3.11-venv)"
  fi
  exit 2
}

# Runs a command with its output in the log; a failure ends the script.
logged() {
  local log="$ROOT/.venv/setup.log" cause
  "$@" >> "$log" 2>&1 < /dev/null && return
  cause="$(grep -i -m 1 '^error' "$log")" || cause="$(tail -n 1 "$log")"
  say "failed: ${cause:-$1}; the whole log is $log"
  exit 1
}

# Makes .venv anew: one that is stale or half-finished is not worth mending.
install() {
  local python extra
  python="$(find_python)"
  # The GPU build is twice as large, and without a GPU no faster.
  extra=cpu
  if command -v nvidia-smi > /dev/null; then extra=gpu; fi
  say "making .venv with $python and installing the packages pinned in" \
    "constraints.txt (extra '$extra'); this takes a minute or two"
  rm -rf "$ROOT/.venv"
  mkdir "$ROOT/.venv"
  logged "$python" -m venv "$ROOT/.venv"
  cd "$ROOT"  # Only here, in a subshell: pip wants '.[extra]'.
  local pip=("$PYTHON" -m pip install --disable-pip-version-check
             -c constraints.txt)
  # Without build isolation the build, too, uses pinned packages only.
  logged "${pip[@]}" setuptools wheel
  logged "${pip[@]}" --no-build-isolation -e ".[$extra,test]"
  echo "$1" > .venv/stamp
  say "done in $SECONDS s"
}

# What .venv was made from; a copied or moved one is stale, since its scripts
# hold absolute paths.
stamp="$(cat "$ROOT/constraints.txt" "$ROOT/setup.py" | sha256sum) $ROOT"

is_ready() {
  [[ -x "$PYTHON" && "$(cat "$ROOT/.venv/stamp" 2> /dev/null)" == "$stamp" ]]
}

if ! is_ready; then
  # One at a time. The lock is on this file since .venv comes and goes; the
  # subshell closes it, or a training run would hold it to its end.
  (
    flock --nonblock 9 || { say 'waiting for another set-up'; flock 9; }
    is_ready || install "$stamp" 9>&-
  ) 9>> "$ROOT/launch/setup.sh"
fi

export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"
# Files in the user's directory must not shadow modules (from Python 3.11 on).
export PYTHONSAFEPATH=1
# TensorFlow's errors only, not its start-up chatter.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
