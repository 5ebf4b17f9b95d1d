#!/usr/bin/env bash
# Builds DeepMind Lab and installs it into .venv, for the levels dmlab30/NAME.
# Usage: launch/install_dmlab.sh [--source=DIR|URL]
#   --source=DIR  sources of google-deepmind/lab, commit b1db91a, which are only
#                 read; without it those of the last time, or else from GitHub
#   --source=https://github.com/google-deepmind/lab
#                 from GitHub, whatever the last time was
#   --help        this text
# Packages that are missing are installed with apt by root, or by sudo where that
# asks for no password; else their names are printed. What is built stays in
# ~/.cache/impala_tf ($XDG_CACHE_HOME). Interrupted, the same command goes on.

set -euo pipefail

readonly URL=https://github.com/google-deepmind/lab
readonly COMMIT=b1db91af5b4d2f3a24466f4632a3e5e1b0829cca
# The names are the same in Debian 12 and in Ubuntu 22.04. Lab itself calls zip.
readonly PACKAGES=(
  g++ gcc ninja-build pkg-config zip libabsl-dev libegl-dev libeigen3-dev libgl-dev
  libglib2.0-dev libjpeg-dev liblua5.1-0-dev libosmesa6-dev libpng-dev libsdl2-dev
  libxml2-dev zlib1g-dev)

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/usage.sh"
if asks_for_help "$@"; then
  print_usage
  exit
fi

tell() { echo "install_dmlab: $*" >&2; }

# Prints the absolute path of a directory.
source_directory() {
  if [[ -z "$1" ]]; then refuse '--source is empty'; fi
  CDPATH='' cd -- "$1" 2> /dev/null || refuse "--source: there is no directory $1"
  pwd -P
}

sources='' is_from_github=false
while (($#)); do
  case "$1" in
    "--source=$URL") is_from_github=true ;;
    --source=*) sources="$(source_directory "${1#*=}")" ;;
    --source)
      sources="$(source_directory "${2:-}")"
      shift
      ;;
    -*) refuse "there is no flag $1" ;;
    *) refuse "the argument '$1' is one too many" ;;
  esac
  shift
done

# One at a time; the lock ends with this process, which Python takes over.
BUILD="${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/impala_tf/dmlab-${COMMIT:0:7}"
LOG="$BUILD/install.log"
mkdir -p "$BUILD" || exit 1
exec 8> "$BUILD/lock"
flock --nonblock 8 || { tell 'waiting for another installation'; flock 8; }
: > "$LOG"

# Runs a command with its output in the log; fails with its last line.
# Usage: step WHAT REMEDY COMMAND...
step() {
  local what="$1" remedy="$2"
  shift 2
  "$@" >> "$LOG" 2>&1 < /dev/null && return
  tell "$what failed: $(tail -n 1 "$LOG"); $remedy; the whole log is $LOG"
  exit 1
}

# Installs those of the packages that are not there.
need() {
  local package missing=() root=()
  for package in "$@"; do
    [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" \
      2> /dev/null)" == installed* ]] || missing+=("$package")
  done
  if ((!${#missing[@]})); then return; fi
  local install=(apt-get install --yes --no-install-recommends "${missing[@]}")
  if (($(id -u))); then
    root=(sudo -n)
    if ! "${root[@]}" true > /dev/null 2>&1; then
      tell "packages are missing; install them: sudo ${install[*]}"
      exit 2
    fi
  fi
  tell "installing packages: ${missing[*]}"
  # Lists of packages that cannot be brought up to date may do.
  "${root[@]}" apt-get update >> "$LOG" 2>&1 < /dev/null || true
  step 'apt-get' "try it by hand: sudo ${install[*]}" \
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}"
}

# Fetches Lab's sources, whole or not at all.
fetch() {
  local part="$BUILD/source.part"
  tell "fetching $URL at ${COMMIT:0:7}"
  rm -rf "$part"
  step 'git' 'see the log' git init --quiet "$part"
  step "fetching $URL" \
    "get its commit ${COMMIT:0:7} elsewhere and give the directory: --source=DIR" \
    env GIT_TERMINAL_PROMPT=0 git -C "$part" -c http.lowSpeedLimit=1000 \
    -c http.lowSpeedTime=60 fetch --quiet --depth=1 "$URL" "$COMMIT"
  step 'git checkout' 'see the log' git -C "$part" checkout --quiet FETCH_HEAD
  rm -f "$BUILD/source"  # Once it was a link to what --source had named.
  mv -T "$part" "$BUILD/source"
}

has_apt=true
if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  has_apt=false
  tell 'no apt here: docs/dmlab.md says what has to be there under other names'
fi
if "$has_apt"; then need "${PACKAGES[@]}"; fi
# The build leaves this link to its sources, once it knows them for Lab's.
if "$is_from_github"; then rm -f "$BUILD/named"; fi
if [[ -z "$sources" && -d "$BUILD/named" ]]; then
  sources="$(source_directory "$BUILD/named")"
elif [[ -z "$sources" ]]; then
  if [[ ! -d "$BUILD/source" ]]; then
    if "$has_apt"; then need ca-certificates git; fi
    fetch
  fi
  sources="$(source_directory "$BUILD/source")"
fi

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# By the link, which stays the same when another environment is made.
PYTHON="$ROOT/.venv/bin/python"
header="$("$PYTHON" -c 'import sysconfig
print(sysconfig.get_path("include") + "/Python.h")')"
if [[ ! -e "$header" ]] && "$has_apt"; then
  need "$("$PYTHON" -c 'import sys
print("python%d.%d-dev" % sys.version_info[:2])')"
fi
exec "$PYTHON" -m launch.dmlab_build "$sources" "$BUILD" --commit="$COMMIT" \
  --log="$LOG"
