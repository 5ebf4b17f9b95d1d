#!/usr/bin/env bash
# Gives scripts an answer to --help, and one-line refusals of wrong arguments.
# Usage: source launch/usage.sh, in a script whose own head is its usage.

# Prints the head of the script that runs: the comment below its first line.
print_usage() {
  sed -n '2,/^$/ s/^# \{0,1\}//p' "$0"
}

# Tells whether --help is among the arguments.
asks_for_help() {
  local argument
  for argument in "$@"; do
    if [[ "$argument" == -h || "$argument" == --help ]]; then return; fi
  done
  return 1
}

# Ends the script with exit code 2 and one line.
refuse() {
  echo "error: $*; see $0 --help" >&2
  exit 2
}

# Answers --help, and refuses flags, empty arguments, and more than MOST of them.
# Usage: check_arguments MOST "$@", in scripts that have no flags.
check_arguments() {
  local most="$1" argument
  shift
  if asks_for_help "$@"; then
    print_usage
    exit
  fi
  for argument in "$@"; do
    case "$argument" in
      '') refuse 'an argument is empty' ;;
      -*) refuse "there is no flag $argument" ;;
    esac
  done
  if (($# > most)); then refuse "the argument '${!#}' is one too many"; fi
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  check_arguments 0 "$@"
  print_usage
fi
