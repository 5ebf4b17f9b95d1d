#!/usr/bin/env bash
# Table 1 of the paper: throughputs of A3C, batched A2C and IMPALA, side by side.
# Usage: launch/reproduce/table1.sh [--seconds=S] [--rounds=N] [--json=FILE]
# and --tasks, --rows, --environments, which --help explains. By default a quarter of an
# hour a task.

set -euo pipefail

source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../setup.sh"
exec "$PYTHON" -m lab.bench.table_1 "$@"
