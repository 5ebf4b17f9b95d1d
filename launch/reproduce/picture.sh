#!/usr/bin/env bash
# Makes the runs of a picture in docs/ or lab/reports/, evaluates and draws them.
# Usage: launch/reproduce/picture.sh PICTURE [RUNS_DIR [BINDING]...]
# PICTURE is atari_games (14 hours of two cores), seven_games (an hour), dmlab (10 hours; it
# needs DeepMind Lab), vizdoom (two hours of one core) or minigrid_fetch (three hours of
# one), each with evaluations on top. Each BINDING replaces a value of all its runs, as in
# 'ExperimentConfig.total_frames = 100_000'. Without RUNS_DIR: runs/PICTURE, with a
# directory a run, and in report/ their curves and scores. Interrupted, the same command
# goes on; runs that are done are evaluated anew.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../usage.sh"
check_arguments 100 "$@"
if (($# == 0)); then refuse 'PICTURE is needed'; fi
launch="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
picture="$1" runs_dir="${2:-runs/$1}" bindings=("${@:3}") runs=()

# Usage: add_run NAME CONFIG [BINDING]...
add_run() {
  runs+=("$runs_dir/$1")
  "$launch/reproduce/run.sh" "$2" "$runs_dir/$1" "${@:3}" "${bindings[@]}"
}

case "$picture" in
  atari_games)
    frames='ExperimentConfig.total_frames = 8_000_000'
    add_run pong/seed_54 configs/atari/pong.gin 'ExperimentConfig.seed = 54'
    for game in breakout space_invaders seaquest qbert beam_rider; do
      add_run "$game/seed_1" "configs/atari/${game}_few_frames.gin" "$frames"
    done
    for game in breakout space_invaders; do
      add_run "$game/seed_2" "configs/atari/${game}_few_frames.gin" "$frames" \
        'ExperimentConfig.seed = 2'
    done
    for game in breakout space_invaders seaquest qbert beam_rider; do
      add_run "$game/40_million" "configs/atari/${game}_few_frames.gin"
    done ;;
  seven_games)
    for name in seven_games seven_games_popart; do
      add_run "$name" "configs/atari57/$name.gin"
    done ;;
  dmlab)
    # Those in lab/reports/ were stopped after 1.6 to 3.1 of 8 million frames.
    few_mazes='DmlabConfig.num_seeds = 100'
    add_level() {
      add_run "${1#*/}" configs/dmlab30/few_frames.gin \
        "EnvironmentConfig.level = '$1'" "${@:2}"
    }
    add_level dmlab30/rooms_watermaze
    add_level dmlab30/rooms_keys_doors_puzzle "$few_mazes"
    add_level dmlab30/lasertag_three_opponents_small "$few_mazes"
    add_level dmlab30/explore_goal_locations_small "$few_mazes" \
      'ActorConfig.env_processes = 8'
    add_level dmlab/seekavoid_arena_01 'ActorConfig.env_processes = 8' ;;
  vizdoom)
    one_core='ExperimentConfig.in_process = True'
    health=configs/vizdoom/health_gathering.gin
    add_run basic configs/vizdoom/basic.gin "$one_core" \
      'ExperimentConfig.total_frames = 1_000_000'
    add_run defend_the_center configs/vizdoom/defend_the_center.gin "$one_core"
    add_run health_gathering "$health" "$one_core"
    for seed in 2 3; do
      add_run "defend_the_center_seed_$seed" configs/vizdoom/defend_the_center.gin \
        "$one_core" "ExperimentConfig.seed = $seed"
      add_run "health_gathering_seed_$seed" "$health" "$one_core" \
        "ExperimentConfig.seed = $seed"
    done
    add_run health_gathering_entropy_0.01 "$health" "$one_core" \
      'ImpalaConfig.entropy_cost = 0.01'
    add_run health_gathering_clipped "$health" "$one_core" \
      'ExperimentConfig.total_frames = 1_000_000' \
      "ExperimentConfig.algorithm = 'impala'" 'ImpalaConfig.popart_step_size = None' \
      "ImpalaConfig.reward_clipping = 'abs_one'" \
      'ImpalaConfig.discount = 0.97' 'ImpalaConfig.entropy_cost = 0.05'
    # The one in lab/reports/ was stopped after 1.05 million frames.
    add_run health_gathering_picture_only "$health" "$one_core" \
      'VizdoomConfig.game_variables = False' ;;
  minigrid_fetch)
    add_run fetch configs/minigrid/fetch.gin
    for seed in 2 3; do
      add_run "fetch_$seed" configs/minigrid/fetch.gin "ExperimentConfig.seed = $seed"
    done
    add_run fetch_no_mission configs/minigrid/fetch.gin \
      'AgentConfig.instruction_length = 0' ;;
  *) refuse "there is no picture '$picture'" ;;
esac
"$launch/report.sh" "${runs[@]}" --output="$runs_dir/report"
