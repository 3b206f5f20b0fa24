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

# process_of RANK: of this test's run, not its guardian.
process_of() {
  local file pid
  # grep's own code is 2 where a process ended meanwhile.
  { grep -lsxzF "CASE=aborted-$$" /proc/[0-9]*/environ || true; } |
    while read -r file; do
      pid=${file//[!0-9]/}
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) != guardian ]] || continue
      # MPICH's name, or Open MPI's.
      if grep -qsxzE "(PMI|OMPI_COMM_WORLD)_RANK=$1" "$file"; then echo "$pid"; fi
    done
}

for dead in 0 1; do
  out=$work/$dead.out err=$work/$dead.err
  : >"$out"
  CASE=aborted-$$ timeout -k 5 60 "$MPIEXEC" -bind-to none -n 3 "$SYNCOPATE" \
    train "$work/tiny.ini" --run.directory="$work/runs" --run.name="$dead" \
    >"$out" 2>"$err" &
  launcher=$!
  for _ in {1..150}; do
    grep -q '^step' "$out" && break
    sleep 0.2
  done
  pids=("$(process_of 0)" "$(process_of 1)" "$(process_of 2)")
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
