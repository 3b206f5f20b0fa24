#!/usr/bin/env bash
# What output.trace = on costs a run: runs with and without it in turns, in one
# process and under MPI with two ranks, with the smallest network (inputs/smoke.ini),
# whose steps take 2 ms, and every step recorded.
#   [ROUNDS=15] [STEPS=300] tests/bench/trace.sh [INPUT.ini] [--section.key=value ...]
# Prints the processor time (user and system, of all ranks) of both, the median of the
# rounds' ratios and their middle half. It fails if that lies above 1.01 altogether.
set -euo pipefail
case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
input=$here/../../inputs/smoke.ini
if [[ ${1:-} == *.ini ]]; then
  input=$1
  shift
fi
rounds=${ROUNDS:-15} steps=${STEPS:-300}

# processor_s COMMAND...: seconds of user and system time.
processor_s() {
  local TIMEFORMAT='%U %S'
  { time "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 70; }; } 2>&1 |
    awk '{printf "%.3f\n", $1 + $2}'
}

run() { # run on|off LAUNCHER... -- KEYS...
  local launcher=() trace=(--output.trace="$1")
  [[ $1 == off ]] || trace+=(--output.trace_steps=1:"$steps")
  shift
  while [[ $1 != -- ]]; do launcher+=("$1"); shift; done
  rm -rf "$scratch/run"
  processor_s "${launcher[@]}" "$SYNCOPATE" train "$input" --run.directory="$scratch" \
    --run.name=run --run.steps="$steps" --run.log_every="$steps" --run.threads=1 \
    --eval.every=0 --checkpoint.every=0 "${trace[@]}" "${@:2}"
}

failed=0
measure() { # measure NAME LAUNCHER... -- KEYS...
  local round on off ratios=() offs=() ons=() sorted
  for ((round = 0; round < rounds; round++)); do
    # The order alternates, so that neither profits from its place.
    if ((round % 2)); then
      off=$(run off "${@:2}") on=$(run on "${@:2}")
    else
      on=$(run on "${@:2}") off=$(run off "${@:2}")
    fi
    ons+=("$on") offs+=("$off")
    ratios+=("$(awk -v a="$on" -v b="$off" 'BEGIN {printf "%.4f", a / b}')")
  done
  mapfile -t sorted < <(printf '%s\n' "${ratios[@]}" | sort -g)
  local middle
  middle=$(median "${ratios[@]}")
  printf '%-24s off %s s, on %s s of processor time; on / off %.4f (middle half %.4f to %.4f of %d rounds)\n' \
    "$1" "$(median "${offs[@]}")" "$(median "${ons[@]}")" "$middle" \
    "${sorted[rounds / 4]}" "${sorted[rounds - 1 - rounds / 4]}" "$rounds"
  if awk -v low="${sorted[rounds / 4]}" 'BEGIN {exit !(low > 1.01)}'; then failed=1; fi
}

machine_line
measure "one process, 4 workers" -- --run.workers=4 "$@"
measure "MPI, 2 ranks" "$MPIEXEC" -n 2 -- "$@"
((failed == 0)) || { echo "expected at most 1.01" >&2; exit 1; }
