#!/usr/bin/env bash
# Table 2 of the paper: corrections with and without replay, on small tasks.
# Usage: launch/reproduce/table2.sh [SWEEP_DIR]; about two hours on 4 cores.

exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" corrections table_2 "$@"
