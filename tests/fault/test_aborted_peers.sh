#!/usr/bin/env bash
# A rank is killed while others read its memory: their MPI library aborts them.
# They stay for long enough to say who died: one line, code 71.
set -euo pipefail
# shellcheck source=tests/fault/dead_ranks.sh
source "$(dirname "$0")/dead_ranks.sh"

sed -i 's/^steps = 16/steps = 600/' "$work/tiny.ini"
wrong=0
complain() {
  echo "FAIL: rank $dead dies: $1"
  wrong=1
}

for dead in 0 1; do
  start_run "aborted-$$" $dead
  pids=()
  for rank in 0 1 2; do pids+=("$(process_of "aborted-$$" $rank rank)"); done
  code=0
  kill -KILL "${pids[dead]}"
  for rank in 0 1 2; do
    if ((rank != dead)); then kill -ABRT "${pids[rank]}"; fi
  done
  wait "$launcher" || code=$?
  ((code == 71)) || complain "exit code $code"
  [[ $(grep -c '^error: ' "$err") == 1 ]] || complain "not one line of error"
  grep -Eq "^error: rank $dead \(host [^,]+, pid ${pids[dead]}\) died at step" "$err" ||
    complain "it is not named"
  ((wrong == 0)) || cat "$err"
done
exit "$wrong"
