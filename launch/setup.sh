#!/usr/bin/env bash
# Makes .venv with the pinned packages, if that has not been done yet.
# Usage: launch/setup.sh
# It takes Python 3.11 or 3.10 from the PATH. If there is none, uv, conda, mamba
# or micromamba fetches 3.11 into .python/ of the checkout. uv is fetched, too,
# since it installs the packages in half of pip's time.
#   IMPALA_TF_PYTHON=PYTHON  takes this interpreter
#   IMPALA_TF_OFFLINE=1      fetches packages, but no interpreter and no uv
#   IMPALA_TF_EXTRA=gpu      installs TensorFlow's GPU build without a GPU

# The other scripts source it for $ROOT, $PYTHON and the environment it exports;
# "$@" are their arguments then. It never changes the working directory.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/usage.sh"
if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then check_arguments 0 "$@"; fi

# The physical path, so that a checkout is the same one by whatever links it is
# reached. With -P, `..` is the parent of what a link leads to.
ROOT="$(CDPATH='' cd -P -- "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)"

readonly UV_VERSION=0.13.9
readonly NO_PYTHON='no Python 3.11 or 3.10 on the PATH'
readonly FORBIDDEN='IMPALA_TF_OFFLINE forbids fetching one'

say() { echo "setup: $*" >&2 || :; }  # Standard error may be closed.

# Runs a command with its output in a log; a failure ends the script.
# Usage: logged LOG COMMAND...
logged() {
  local log="$1" cause
  shift
  # The user's settings of pip are not for an environment.
  env -u PYTHONPATH PIP_USER=0 "$@" >> "$log" 2>&1 < /dev/null && return
  cause="$(grep -i -m 1 '^error' "$log")" || cause="$(tail -n 1 "$log")"
  say "failed: ${cause:-$1}; the whole log is $log"
  exit 1
}

# Tells whether a command runs: a version manager's placeholder is on the PATH,
# but fails.
runs() { "$@" > /dev/null 2>&1 < /dev/null; }

is_supported() {
  runs "$1" -c \
    'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))'
}

has_venv() { runs "$1" -c 'import ensurepip, venv'; }

may_fetch() { [[ "${IMPALA_TF_OFFLINE:-0}" == 0 ]]; }

# Prints how to get Python on this system.
remedy() {
  local key value id='' version=''
  while IFS='=' read -r key value; do
    case "$key" in
      ID) id="${value//\"/}" ;;
      VERSION_ID) version="${value//\"/}" ;;
    esac
  done < <(cat /etc/os-release 2> /dev/null)
  case "$id $version" in
    'debian 12') echo 'apt install python3.11 python3.11-venv' ;;
    'ubuntu 22.04') echo 'apt install python3.10 python3.10-venv' ;;
    debian* | ubuntu*)  # Other releases have neither Python.
      if may_fetch; then
        echo 'apt install curl ca-certificates, and Python 3.11 is fetched'
      else
        echo 'install Python 3.11 or uv'
      fi ;;
    fedora* | rhel* | centos* | rocky* | almalinux*)
      echo 'dnf install python3.11' ;;
    opensuse*) echo 'zypper install python311' ;;
    *) echo 'install Python 3.11 or uv' ;;
  esac
}

# Ends the script with exit code 2 and one line.
give_up() {
  say "$*, or use Docker (launch/docker/Dockerfile)"
  exit 2
}

# Sets `uv` to one that runs, or to nothing.
find_uv() {
  for uv in uv ~/.local/bin/uv ~/.cargo/bin/uv "$ROOT/.python/uv"; do
    if runs "$uv" --version; then return; fi
  done
  uv=''
}

# Sets `uv` to one that it puts into .python/: with pip, or else with uv's own
# installer. Fails if there is nothing to fetch it with.
fetch_uv() {
  local part="$ROOT/.python/part" log="$ROOT/.python/setup.log" name get=()
  for name in "${python:-python3}" python3 curl wget ''; do
    case "$name" in
      '') return 1 ;;
      curl | wget) if runs "$name" --version; then break; fi ;;
      *) if has_venv "$name"; then break; fi ;;
    esac
  done
  mkdir -p "$ROOT/.python"
  rm -rf "$part"
  say "fetching uv $UV_VERSION with $name into $ROOT/.python"
  case "$name" in
    curl) get=(curl --fail --silent --show-error --location --output) ;;
    wget) get=(wget --no-verbose --output-document) ;;
  esac
  if ((${#get[@]})); then
    mkdir -p "$part/bin"
    logged "$log" "${get[@]}" "$part/install.sh" \
      "https://astral.sh/uv/$UV_VERSION/install.sh"
    logged "$log" env UV_UNMANAGED_INSTALL="$part/bin" sh "$part/install.sh"
  else
    logged "$log" "$name" -m venv "$part"
    logged "$log" "$part/bin/python" -m pip install \
      --disable-pip-version-check "uv==$UV_VERSION"
  fi
  uv="$ROOT/.python/uv"
  logged "$log" mv "$part/bin/uv" "$uv"  # Whole or not at all.
  rm -rf "$part"
}

# Sets `python` to a Python 3.11 that uv knows of or fetches into .python/.
find_python_with_uv() {
  local find=("$uv" python find --no-project --system 3.11)
  if python="$("${find[@]}" 2> /dev/null)"; then return; fi
  may_fetch || give_up "$NO_PYTHON, and $FORBIDDEN; $(remedy)"
  say "fetching Python 3.11 with $uv into $ROOT/.python"
  mkdir -p "$ROOT/.python"
  export UV_PYTHON_INSTALL_DIR="$ROOT/.python"
  # No link to it outside of the checkout.
  logged "$ROOT/.python/setup.log" env UV_PYTHON_INSTALL_BIN=0 \
    "$uv" python install 3.11
  python="$("${find[@]}")"
}

# Sets `python` to a Python 3.11 that conda or one of its kind fetches.
fetch_python_with_conda() {
  local prefix="$ROOT/.python/conda"
  say "fetching Python 3.11 with $1 into $ROOT/.python"
  mkdir -p "$ROOT/.python"
  rm -rf "$prefix"  # Of an attempt that failed.
  logged "$ROOT/.python/setup.log" "$1" create --yes --quiet \
    --prefix "$prefix" --override-channels --channel conda-forge python=3.11
  python="$prefix/bin/python3.11"
}

# Sets `python` to the first Python 3.11 or 3.10 that can make environments, by
# itself or with `uv`, or fetches one; ends with exit code 2 if it cannot.
find_python() {
  local name without_venv='' why="$NO_PYTHON" how
  # What has been fetched before is the last.
  local names=(python3.11 python3.10 python3 "$ROOT"/.python/*/bin/python3.11)
  find_uv
  if [[ -n "${IMPALA_TF_PYTHON:-}" ]]; then
    names=("$IMPALA_TF_PYTHON")
    is_supported "$IMPALA_TF_PYTHON" || give_up 'IMPALA_TF_PYTHON names no' \
      "Python 3.11 or 3.10 that runs: $IMPALA_TF_PYTHON; name another, or none"
  fi
  for python in "${names[@]}"; do
    is_supported "$python" || continue
    if [[ -n "$uv" ]] || has_venv "$python"; then return; fi
    without_venv="${without_venv:-$python}"
  done
  if [[ -n "$uv" ]]; then
    find_python_with_uv
    return
  fi
  python="$without_venv"
  if may_fetch; then
    for name in conda mamba micromamba; do
      if [[ -z "$python" ]] && runs "$name" --version; then
        fetch_python_with_conda "$name"
        return
      fi
    done
    if fetch_uv; then
      if [[ -z "$python" ]]; then find_python_with_uv; fi
      return
    fi
  fi
  how="$(remedy)"
  if [[ -n "$python" ]]; then
    why="$python cannot make virtual environments (no ensurepip)"
    how="on Debian and Ubuntu: apt install ${python##*/}-venv"
  fi
  may_fetch || why="$why, and $FORBIDDEN"
  give_up "$why; $how"
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

list_packages() {
  env -u PYTHONPATH "$1/bin/python" -m pip freeze --exclude impala_tf
}

# Names packages that somebody installed into the old environment and that the
# new one lacks.
# Usage: name_lost_packages OLD NEW
name_lost_packages() {
  local old="$1" new="$2" lost
  list_packages "$old" > "$new/old.txt" 2> /dev/null || return 0
  # Neither what its set-up left there, nor what is there in another version.
  mapfile -t lost < <(grep -v '^#' "$new/old.txt" |
    grep -vxFf <(cat "$old/packages.txt" "$new/packages.txt" 2> /dev/null) |
    grep -vf <(sed 's/\(==\| @ \).*//; s/.*/^&\\(==\\| @ \\)/' \
      "$new/packages.txt"))
  if ((${#lost[@]})); then
    lost=("${lost[@]@Q}")
    say 'the new .venv lacks what was installed by hand; install it again:' \
      ".venv/bin/python -m pip install -c constraints.txt" \
      "${lost[*]/#\'-e /-e \'}"
  fi
}

# Makes a new environment, and has .venv lead to it once it is whole. What .venv
# led to stays until the next set-up, since programs may run from there.
install() {
  local python uv extra name new
  [[ -w ~ ]] || export UV_NO_CACHE=1
  find_python
  # Not if pip has an index of its own, which uv would not know.
  if [[ -z "$uv" ]] && may_fetch &&
    ! "$python" -m pip config list 2> /dev/null | grep '\.index-url=' > /dev/null; then
    fetch_uv
  fi
  # The GPU build is twice as large, and without a GPU no faster. A machine
  # that makes images for others has none itself.
  if command -v nvidia-smi > /dev/null; then extra=gpu; else extra=cpu; fi
  extra="${IMPALA_TF_EXTRA:-$extra}"
  say "making .venv with $python and installing the packages pinned in" \
    "constraints.txt (extra '$extra'); this takes a minute or two"
  remove_old
  printf -v name '%(%Y%m%d-%H%M%S)T-%d' -1 "$$"
  new="$ROOT/.venvs/$name"  # For good: its scripts hold this path.
  mkdir -p "$new"
  local log="$new/setup.log" make pip
  if [[ -n "$uv" ]]; then
    make=("$uv" venv --seed --allow-existing --python "$python")
    pip=("$uv" pip install --python "$new/bin/python" --compile-bytecode)
  else
    make=("$python" -m venv)
    pip=("$new/bin/python" -m pip install --disable-pip-version-check)
  fi
  logged "$log" "${make[@]}" "$new"
  pip+=(-c "$ROOT/constraints.txt")
  # Without build isolation the build, too, uses pinned packages only.
  logged "$log" "${pip[@]}" setuptools wheel
  logged "$log" "${pip[@]}" --no-build-isolation -e "${ROOT}[$extra,test]"
  list_packages "$new" > "$new/packages.txt" 2>> "$log" || logged "$log" false
  # DeepMind Lab comes along, to the same Python: no package index has it.
  local lab
  for lab in "$ROOT"/.venv/lib/python3*/site-packages/deepmind_lab; do
    lab="${lab#"$ROOT/.venv/"}"
    if [[ -d "$ROOT/.venv/$lab" && -d "$new/${lab%/*}" ]]; then
      logged "$log" cp -al "$ROOT/.venv/$lab" "$new/$lab"
    fi
  done
  name_lost_packages "$ROOT/.venv" "$new"
  echo "$1" > "$new/stamp"
  # Earlier versions of this script made a directory.
  if [[ -d "$ROOT/.venv" && ! -L "$ROOT/.venv" ]]; then
    mv -T "$ROOT/.venv" "$new-replaced"
  fi
  ln -sfn ".venvs/$name" "$ROOT/.venvs/link"
  mv -T "$ROOT/.venvs/link" "$ROOT/.venv"  # At once, unlike `ln -sfn`.
  say "done in $SECONDS s"
}

[[ "$OSTYPE" == linux* ]] || give_up 'the scripts need Linux'

# What .venv was made from; a copied or moved one is stale, since its scripts
# hold absolute paths.
stamp="$(cd -P -- "$ROOT" && cat constraints.txt pyproject.toml setup.py |
  sha256sum) $ROOT"

is_ready() {
  [[ -x "$ROOT/.venv/bin/python" &&
     "$(cat "$ROOT/.venv/stamp" 2> /dev/null)" == "$stamp" ]]
}

unset PYTHONHOME  # Of another Python, without the modules of this one.
if [[ "$ROOT" == *:* ]]; then
  say "the colon in $ROOT breaks Python's search path; move the clone"
  exit 2
fi

if ! is_ready; then
  if asks_for_help "$@"; then
    print_usage
    say 'run launch/setup.sh to have --help list all flags'
    exit
  fi
  [[ -w "$ROOT/constraints.txt" ]] || give_up "$ROOT/.venv is missing, old or" \
    "not readable, and $ROOT cannot be written; ask its owner to run" \
    'launch/setup.sh, or make a clone of your own'
  # One at a time. The lock is on a file that stays, as .venv does not, and is
  # closed at the end, or a training run would hold it to its own; and nothing
  # runs in a subshell, which would go on where this script is killed.
  # Open for writing, too, or NFS refuses to lock it.
  exec 9<> "$ROOT/constraints.txt"
  flock --nonblock 9 || { say 'waiting for another set-up'; flock 9; }
  is_ready || install "$stamp" 9>&-
  exec 9>&-
fi

# Without the link: a program that runs keeps its environment and gives it to
# its children, even if .venv leads to another one meanwhile.
# shellcheck disable=SC2034
PYTHON="$(cd -P -- "$ROOT/.venv" && pwd)/bin/python"

# A PYTHONPATH of the user's comes after the pinned packages, since it may hold
# others of the same names.
pinned=("${PYTHON%/bin/python}"/lib/python3.*/site-packages)
export PYTHONPATH="$ROOT${PYTHONPATH:+:${pinned[0]}:$PYTHONPATH}"
# Files in the user's directory must not shadow modules (from Python 3.11 on).
export PYTHONSAFEPATH=1
# As impala_tf sets it, for programs that do not import that, such as TensorBoard.
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
