#!/usr/bin/env bash
# Figure E.1 of the paper: corrections at controlled policy lags.
# Usage: launch/reproduce/figure_e1.sh [SWEEP_DIR]; about 40 minutes on 4 cores.

exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" figure_e1 figure_e1 "$@"
