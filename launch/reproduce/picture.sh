#!/usr/bin/env bash
# Makes the runs of a picture in docs/, evaluates each over 200 games, and draws them.
# Usage: launch/reproduce/picture.sh PICTURE [RUNS_DIR [BINDING]...]
# PICTURE is atari_games (4 hours of two cores), seven_games (an hour), vizdoom (40 minutes
# of one) or minigrid_fetch (likewise). Each BINDING replaces a value of all its runs, as in
# 'ExperimentConfig.total_frames = 100_000'. Without RUNS_DIR: runs/PICTURE, with a
# directory a run; beside them report/ has the picture. Interrupted, the same command goes
# on.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../usage.sh"
check_arguments 100 "$@"
if (($# == 0)); then refuse 'PICTURE is needed'; fi
launch="$(dirname "${BASH_SOURCE[0]}")/.."
picture="$1" runs_dir="${2:-runs/$1}" bindings=("${@:3}") runs=()

# Usage: make NAME CONFIG [BINDING]...
make() {
  runs+=("$runs_dir/$1")
  "$launch/reproduce/run.sh" "$2" "$runs_dir/$1" "${@:3}" "${bindings[@]}"
}

case "$picture" in
  atari_games)
    frames='ExperimentConfig.total_frames = 8_000_000'
    make pong configs/atari/pong.gin
    for game in breakout space_invaders seaquest qbert beam_rider; do
      make "$game" "configs/atari/${game}_few_frames.gin" "$frames"
    done
    for game in breakout space_invaders; do
      make "${game}_seed_2" "configs/atari/${game}_few_frames.gin" "$frames" \
        'ExperimentConfig.seed = 2'
    done ;;
  seven_games)
    for name in seven_games seven_games_popart; do
      make "$name" "configs/atari57/$name.gin"
    done ;;
  vizdoom)
    one_core='ExperimentConfig.in_process = True'
    make basic configs/vizdoom/basic.gin "$one_core" \
      'ExperimentConfig.total_frames = 1_000_000'
    for name in defend_the_center health_gathering; do
      make "$name" "configs/vizdoom/$name.gin" "$one_core"
    done
    make health_gathering_seed_2 configs/vizdoom/health_gathering.gin "$one_core" \
      'ExperimentConfig.seed = 2' ;;
  minigrid_fetch)
    make fetch configs/minigrid/fetch.gin
    make fetch_no_mission configs/minigrid/fetch.gin 'AgentConfig.instruction_length = 0' ;;
  *) refuse "there is no picture '$picture'" ;;
esac
"$launch/report.sh" "${runs[@]}" --output="$runs_dir/report"
