#!/usr/bin/env bash
# How the cost of a step grows: time against batch, depth, workers in one process
# and MPI ranks; memory against workers in one process, which must grow by their
# replicas only. A table of points, fits, and a figure.
#   tests/bench/scaling.sh [-o FILE.png] [--section.key=value ...]     5 minutes
#   tests/bench/scaling.sh table [-o FILE.png]        of the points measured last
# Environment: OUT (.) for scaling.csv, THREADS (2), SYNCOPATE, MPIEXEC, PYTHON;
# BATCHES, DEPTHS, WORKERS, RANKS, MEMORY_WORKERS: lists of what is measured.
# Exit 1 if memory grows by more than replicas.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
points=${OUT:-.}/scaling.csv
is_table='' picture=()
[[ ${1:-} != table ]] || { is_table=1 && shift; }
[[ ${1:-} != -o ]] || { picture=(-o "$2") && shift 2; }
input=$here/resnet20.ini
python=$(find_python numpy)
[[ -n $python ]] || { echo "no Python with numpy (apt install python3-numpy)"; exit 77; }
[[ -n ${PLOT_PYTHON:-} ]] || PLOT_PYTHON=$(find_python "numpy, matplotlib")

# point SERIES X LAUNCHER... -- KEYS...: a row of the table of points.
point() {
  local series=$1 x=$2 launcher=()
  shift 2
  while [[ $1 != -- ]]; do launcher+=("$1") && shift; done
  shift
  "${launcher[@]}" "$SYNCOPATE" bench step "$input" "$@" >"$scratch/point" ||
    { tail -n 2 "$scratch/point" >&2; exit 70; }
  local ms
  ms=$(sed -n 's/^step: \([0-9.]*\) ms.*/\1/p' "$scratch/point")
  have "time of a step" "$ms"
  echo "$series,$x,$ms,$(memory "$scratch/point"),$(sed -n 's/^replica *\([0-9.]*\) MB.*/\1/p' "$scratch/point")" |
    tee -a "$points"
}

measure() {
  local x
  machine_line
  echo "series,x,step_ms,memory_mb,replica_mb" | tee "$points"
  for x in ${BATCHES-16 32 64 128 256}; do
    point batch "$x" -- --run.threads="$threads" "$@" --data.batch="$x"
  done
  for x in ${DEPTHS-8 14 20 32 56}; do
    point depth "$x" -- --run.threads="$threads" "$@" --data.batch=32 \
      --model.block=basic --model.depth="$x"
  done
  for x in ${WORKERS-1 2 4 8 16}; do
    point workers "$x" -- --run.threads="$threads" "$@" --data.batch=32 \
      --run.workers="$x"
  done
  for x in ${RANKS-1 2 4 8}; do
    point ranks "$x" "$MPIEXEC" -bind-to none -n "$x" -- --run.threads=1 "$@" \
      --data.batch=32 --run.workers=auto
  done
  # A network that is large beside what a step takes, so that replicas show.
  input=$here/wrn16_4.ini
  for x in ${MEMORY_WORKERS-1 2 4 8}; do
    point memory "$x" -- --run.threads="$threads" "$@" --model.width=8 \
      --data.batch=4 --run.workers="$x"
  done
}

[[ -n $is_table ]] || measure "$@"
"${PLOT_PYTHON:-$python}" "$here/scaling.py" "$points" --processors "$(nproc)" "${picture[@]}"
