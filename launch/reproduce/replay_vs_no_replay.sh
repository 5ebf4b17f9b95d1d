#!/usr/bin/env bash
# Pong with and without 50 % replay, three seeds each.
# Usage: launch/reproduce/replay_vs_no_replay.sh [SWEEP_DIR]; about 100 minutes on 4 cores.

exec "$(dirname "${BASH_SOURCE[0]}")/display.sh" replay_pong replay "$@"
