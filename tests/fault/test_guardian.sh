#!/usr/bin/env bash
# The guardian of a rank is killed: its rank says so in one line. All ranks are
# killed: their guardians say so. The code is 71, and nobody is left behind.
set -euo pipefail
# shellcheck source=tests/fault/dead_ranks.sh
source "$(dirname "$0")/dead_ranks.sh"

sed -i 's/^steps = 16/steps = 600/' "$work/tiny.ini"
wrong=0
complain() {
  echo "FAIL: $1"
  wrong=1
}

all_gone() { # all_gone CASE WHAT
  local tries
  for tries in {1..100}; do # launchers reap theirs
    grep -qlsxzF "CASE=$1" /proc/[0-9]*/environ || return 0
    sleep 0.1
  done
  complain "$2: processes are left"
}

for rank in 0 1 2; do
  start_run "guardian-$$" $rank
  guardian=$(process_of "guardian-$$" $rank guardian)
  code=0
  kill -KILL "$guardian" || complain "rank $rank has no guardian"
  wait "$launcher" || code=$?
  ((code == 71)) || complain "guardian of rank $rank: exit code $code"
  [[ $(grep -c '^error: ' "$err") == 1 ]] ||
    complain "guardian of rank $rank: not one line of error"
  grep -Eq "^error: rank $rank \(host [^,]+, pid [0-9]+\) exits because its guardian \(pid $guardian\) was killed$" \
    "$err" || complain "guardian of rank $rank: it is not named"
  all_gone "guardian-$$" "guardian of rank $rank"
  ((wrong == 0)) || cat "$err"
done

start_run "everyone-$$" everyone
pids=()
for rank in 0 1 2; do pids+=("$(process_of "everyone-$$" $rank rank)"); done
code=0
kill -KILL "${pids[@]}"
wait "$launcher" || code=$?
((code == 71)) || complain "all ranks: exit code $code"
! "$MPIEXEC" --version 2>&1 | grep -q HYDRA ||
  grep -Eq "^error: rank [012] \(host [^,]+, pid [0-9]+\) was killed by signal 9 \(Killed\)$" "$err" ||
  complain "all ranks: nobody says so: $(cat "$err")"
all_gone "everyone-$$" "all ranks"
exit "$wrong"
