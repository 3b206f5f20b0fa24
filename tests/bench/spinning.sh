#!/usr/bin/env bash
# What it costs that OpenMP threads spin while they wait: ResNet-20 on two threads
# with libgomp's default, with what the program sets, and without spinning, on
# cores as they are and beside two busy programs, in turns.
#   [ROUNDS=5] [STEPS=40] tests/bench/spinning.sh [INPUT.ini] [--section.key=value ...]
# Prints samples/s: medians over the rounds, and what the program's setting gains or
# costs. On quiet cores it may cost 3%; beside busy programs it must be worth a factor
# of 3, or the script fails. It says which load it found.
set -euo pipefail
case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
unset GOMP_SPINCOUNT OMP_WAIT_POLICY
input=$here/resnet20.ini
if [[ ${1:-} == *.ini ]]; then
  input=$1
  shift
fi
steps=${STEPS:-40}
# libgomp's own default, what the program sets, none.
settings=(300000 "" 0)
names=("libgomp's default" "as the program sets it" "no spinning")

# rate_of SETTING KEYS...: samples/s after the first rows.
rate_of() {
  local environment=()
  [[ -z $1 ]] || environment=("GOMP_SPINCOUNT=$1")
  rm -rf "$scratch/run"
  env "${environment[@]}" "$SYNCOPATE" train "$input" --run.directory="$scratch" \
    --run.name=run --run.steps="$steps" --run.log_every=$((steps / 4)) \
    --run.threads="$threads" --eval.every=0 --data.test_samples=64 \
    --checkpoint.every=0 "${@:2}" >"$scratch/log" || { cat "$scratch/log" >&2; exit 70; }
  sed -n 's|^step .* \([0-9]*\) samples/s.*|\1|p' "$scratch/log" | tail -n +2 |
    awk '{sum += 1 / $1} END {printf "%.1f\n", NR / sum}'
}

busy=()
stop_busy() {
  ((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null || true
  busy=()
}
trap 'stop_busy; rm -rf "$scratch"' EXIT

measure() { # measure NAME KEYS...: medians of the three settings
  local round i medians=()
  local -A rates=()
  for ((round = 0; round < ${ROUNDS:-5}; round++)); do
    for i in 0 1 2; do rates[$i]+=" $(rate_of "${settings[i]}" "${@:2}")"; done
  done
  for i in 0 1 2; do
    # shellcheck disable=SC2086
    medians+=("$(median ${rates[$i]})")
    echo "$1, ${names[i]}: ${medians[i]} samples/s (${rates[$i]# })"
  done
  gain=$(ratio "${medians[1]}" "${medians[0]}")
  echo "$1: the program's setting / libgomp's default = $gain"
}

machine_line
measure "cores as they are" "$@"
quiet=$gain
for _ in 1 2; do
  (while :; do :; done) &
  busy+=($!)
done
measure "beside two busy programs" "$@"
stop_busy
awk -v quiet="$quiet" -v busy="$gain" 'BEGIN {exit !(quiet >= 0.97 && busy >= 3)}' || {
  echo "expected at least 0.97 and 3" >&2
  exit 1
}
