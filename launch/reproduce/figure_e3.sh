#!/usr/bin/env bash
# Figure E.3 of the paper: v_{s+1} or V(x_{s+1}); the same runs as table2.sh.
# Usage: launch/reproduce/figure_e3.sh [SWEEP_DIR]; about two hours on 4 cores, if they are not there.

exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" corrections figure_e3 "$@"
