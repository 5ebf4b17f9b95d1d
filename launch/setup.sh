#!/usr/bin/env bash
# Makes .venv with the pinned packages, if that has not been done yet.
# Usage: launch/setup.sh
# IMPALA_TF_EXTRA=gpu installs TensorFlow's build for GPUs where there is none.

# The other scripts source it for $ROOT, $PYTHON and the environment it exports;
# "$@" are their arguments then. It never changes the working directory.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then check_arguments 0 "$@"; fi

# The physical path, so that a checkout is the same one by whatever links it is
# reached. With -P, `..` is the parent of what a link leads to.
ROOT="$(CDPATH='' cd -P -- "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

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

# Runs a command with its output in a log; a failure ends the script.
# Usage: logged LOG COMMAND...
logged() {
  local log="$1" cause
  shift
  "$@" >> "$log" 2>&1 < /dev/null && return
  cause="$(grep -i -m 1 '^error' "$log")" || cause="$(tail -n 1 "$log")"
  say "failed: ${cause:-$1}; the whole log is $log"
  exit 1
}

# Removes environments, half-finished ones too, that .venv does not lead to,
# unless a process runs from there.
remove_old() {
  local old
  for old in "$ROOT"/.venvs/*/; do
    if [[ "$old" -ef "$ROOT/.venv" ]]; then continue; fi
    # Python was started from there, or has a library of there in its memory.
    grep -qsF -- "$old" /proc/[0-9]*/{cmdline,maps} || rm -rf "$old"
  done
}

# Makes a new environment, and has .venv lead to it once it is whole. What .venv
# led to stays until the next set-up, since programs may run from there.
install() {
  local python extra name new
  python="$(find_python)"
  # The GPU build is twice as large, and without a GPU no faster. A machine
  # that makes images for others has none itself.
  extra="${IMPALA_TF_EXTRA:-cpu}"
  if command -v nvidia-smi > /dev/null; then extra=gpu; fi
  say "making .venv with $python and installing the packages pinned in" \
    "constraints.txt (extra '$extra'); this takes a minute or two"
  remove_old
  printf -v name '%(%Y%m%d-%H%M%S)T-%d' -1 "$$"
  new="$ROOT/.venvs/$name"  # For good: its scripts hold this path.
  mkdir -p "$new"
  local log="$new/setup.log"
  logged "$log" "$python" -m venv "$new"
  local pip=("$new/bin/python" -m pip install --disable-pip-version-check
             -c "$ROOT/constraints.txt")
  # Without build isolation the build, too, uses pinned packages only.
  logged "$log" "${pip[@]}" setuptools wheel
  logged "$log" "${pip[@]}" --no-build-isolation -e "${ROOT}[$extra,test]"
  # DeepMind Lab comes along (launch/install_dmlab.sh): no package index has it.
  local lab="lib/$python/site-packages/deepmind_lab"  # For this Python alone.
  if [[ -d "$ROOT/.venv/$lab" ]]; then
    logged "$log" cp -al "$ROOT/.venv/$lab" "$new/$lab"
  fi
  echo "$1" > "$new/stamp"
  # Earlier versions of this script made a directory.
  if [[ -d "$ROOT/.venv" && ! -L "$ROOT/.venv" ]]; then
    mv -T "$ROOT/.venv" "$new-replaced"
  fi
  ln -sfn ".venvs/$name" "$ROOT/.venvs/link"
  mv -T "$ROOT/.venvs/link" "$ROOT/.venv"  # At once, unlike `ln -sfn`.
  say "done in $SECONDS s"
}

# What .venv was made from; a copied or moved one is stale, since its scripts
# hold absolute paths.
stamp="$(cat "$ROOT/constraints.txt" "$ROOT/setup.py" | sha256sum) $ROOT"

is_ready() {
  [[ -x "$ROOT/.venv/bin/python" &&
     "$(cat "$ROOT/.venv/stamp" 2> /dev/null)" == "$stamp" ]]
}

if ! is_ready; then
  if asks_for_help "$@"; then
    print_usage
    say 'run launch/setup.sh to have --help list all flags'
    exit
  fi
  # One at a time. The lock is on this file since .venv comes and goes. It is
  # closed at the end, or a training run would hold it to its own; and nothing
  # runs in a subshell, which would go on where this script is killed.
  # Open for reading: a script that is open for writing cannot be started.
  exec 9< "$ROOT/launch/setup.sh"
  flock --nonblock 9 || { say 'waiting for another set-up'; flock 9; }
  is_ready || install "$stamp" 9>&-
  exec 9>&-
fi

# Without the link: a program that runs keeps its environment and gives it to
# its children, even if .venv leads to another one meanwhile.
# shellcheck disable=SC2034
PYTHON="$(cd -P -- "$ROOT/.venv" && pwd)/bin/python"

export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}"
# Files in the user's directory must not shadow modules (from Python 3.11 on).
export PYTHONSAFEPATH=1
# TensorFlow's errors only, not its start-up chatter.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
