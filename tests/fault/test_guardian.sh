#!/usr/bin/env bash
# The guardian of a rank is killed: its rank says so in one line, the code is
# 71, and nobody is left behind.
set -euo pipefail
# shellcheck source=tests/fault/dead_ranks.sh
source "$(dirname "$0")/dead_ranks.sh"

sed -i 's/^steps = 16/steps = 600/' "$work/tiny.ini"
wrong=0
complain() {
  echo "FAIL: $1"
  wrong=1
}

# guardian_of RANK: the process that is called so, of this test's run.
guardian_of() {
  local file pid
  # grep's own code is 2 where a process ended meanwhile.
  { grep -lsxzF "CASE=guardian-$$" /proc/[0-9]*/environ || true; } |
    while read -r file; do
      pid=${file//[!0-9]/}
      [[ $(cat "/proc/$pid/comm" 2>/dev/null) == guardian ]] || continue
      # MPICH's name, or Open MPI's.
      if grep -qsxzE "(PMI|OMPI_COMM_WORLD)_RANK=$1" "$file"; then echo "$pid"; fi
    done
}

for rank in 0 1 2; do
  out=$work/$rank.out err=$work/$rank.err
  : >"$out"
  CASE=guardian-$$ timeout -k 5 60 "$MPIEXEC" -bind-to none -n 3 "$SYNCOPATE" \
    train "$work/tiny.ini" --run.directory="$work/runs" --run.name="$rank" \
    >"$out" 2>"$err" &
  launcher=$!
  for _ in {1..150}; do
    grep -q '^step' "$out" && break
    sleep 0.2
  done
  guardian=$(guardian_of $rank)
  code=0
  kill -KILL "$guardian" || complain "rank $rank has no guardian"
  wait "$launcher" || code=$?
  ((code == 71)) || complain "guardian of rank $rank: exit code $code"
  [[ $(grep -c '^error: ' "$err") == 1 ]] ||
    complain "guardian of rank $rank: not one line of error"
  grep -Eq "^error: rank $rank \(host [^,]+, pid [0-9]+\) exits because its guardian \(pid $guardian\) was killed$" \
    "$err" || complain "guardian of rank $rank: it is not named"
  for tries in {1..100}; do # launchers reap theirs
    grep -qlsxzF "CASE=guardian-$$" /proc/[0-9]*/environ || break
    sleep 0.1
  done
  ((tries < 100)) || complain "guardian of rank $rank: processes are left"
  ((wrong == 0)) || cat "$err"
done
exit "$wrong"
