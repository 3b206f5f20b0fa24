#!/usr/bin/env bash
# How fast `syncopate simulate` is: seconds, seconds of processor time (one core;
# the machine may be shared), memory, and steps of a worker per second of that time
# for BERT-Large under the schemes that the README names.
#
#   tests/bench/simulate.sh [WORKERS [STEPS]]     10,000 workers, 100 steps
#
# SYNCOPATE: the executable, build/release/syncopate unless set.
# SCHEMES: lines of a scheme and its keys, instead of the list below.
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
  exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
: "${SYNCOPATE:=$here/../../build/release/syncopate}"
workers=${1:-10000} steps=${2:-100}
: "${SCHEMES:=bsp --sync.tables=dense --sync.bucket_mb=25
bsp --sync.tables=dense --sync.bucket_mb=25 --sync.collective=butterfly
ds_sync --sync.bucket_mb=25 --ds_sync.restart=never
choco --topology.kind=ring --compress.kind=sign
local_sgd
asp --asp.servers=16}"
said=$(mktemp) && trap 'rm -f "$said"' EXIT

printf '%-72s %9s %9s %9s %14s\n' "$workers workers, $steps steps" seconds \
  processor memory 'worker-steps/s'
while read -r scheme keys; do
  words=()
  read -ra words <<<"$keys"
  used=$({
    TIMEFORMAT='%R %U %S'
    time "$SYNCOPATE" simulate "$here/simulate_bert_large.ini" \
      --run.workers="$workers" --run.steps="$steps" --sync.scheme="$scheme" \
      "${words[@]}" >"$said"
  } 2>&1)
  # "simulated in 17.9 s: 5.6e+04 steps of a worker per second, with 740 MB of
  # memory"
  memory=$(sed -n 's/^simulated.* with \(.*\) of memory/\1/p' "$said")
  awk -v what="$scheme${keys:+ $keys}" -v memory="$memory" \
    -v steps="$(awk '/^steps/ {print $2}' "$said")" '
    {printf "%-72s %9.1f %9.1f %9s %14.0f\n", what, $1, $2 + $3, memory, steps / ($2 + $3)}' \
    <<<"$used"
done <<<"$SCHEMES"
