#!/usr/bin/env bash
# Figure E.2 of the paper: stability over settings; the same runs as table2.sh.
# Usage: launch/reproduce/figure_e2.sh [SWEEP_DIR]; about two hours on 4 cores, if they are not there.

exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" corrections figure_e2 "$@"
