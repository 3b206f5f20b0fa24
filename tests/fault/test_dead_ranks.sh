#!/usr/bin/env bash
# A rank that dies, is stopped or hangs, in every stage: one line names it, the
# code is 71, and nobody is left behind. A subset of the cases; all of them
# under EXHAUSTIVE=1.
set -euo pipefail
# shellcheck source=tests/fault/dead_ranks.sh
source "$(dirname "$0")/dead_ranks.sh"

cases() {
  local kind stage rank
  for kind in kill stop hang; do
    for stage in start step collective boundary evaluation checkpoint end; do
      for rank in 0 1 2; do echo "$kind $stage $rank"; done
    done
  done
}

# Every seventh case, for each kind from another one on: each kind comes with
# three ranks, and every stage comes.
if [[ ${EXHAUSTIVE:-0} == 1 ]]; then
  cases
else
  cases | awk '(NR + 2 * int((NR - 1) / 21)) % 7 == 0'
fi >"$work/cases"

export launcher="$MPIEXEC -bind-to none -n 3"
rc=0
# Most of a case is waiting: three at a time.
# shellcheck disable=SC2016  # for the inner shell to expand
xargs -P 3 -L 1 bash -euo pipefail -c 'case_of "$launcher" "$@"' case \
  <"$work/cases" || rc=1

# What is slow is not dead: four times as many workers as cores, none named.
if ! $MPIEXEC -bind-to none -n 8 "$SYNCOPATE" train "$work/tiny.ini" \
  --run.directory="$work/runs" --run.name=crowded --run.step_timeout_s=30 \
  --data.samples=256 --stragglers.delay_workers=0 >"$work/out" 2>"$work/err" ||
  grep -q '^error' "$work/err"; then
  echo "FAIL: a false alarm in a crowd"
  cat "$work/err"
  rc=1
fi
# One that is parked for long, while others get on.
if ! $MPIEXEC -bind-to none -n 3 "$SYNCOPATE" train "$work/tiny.ini" \
  --run.directory="$work/runs" --run.name=parked --sync.scheme=asp \
  --run.step_timeout_s=2 --stragglers.delay_ms=500 \
  --stragglers.delay_workers=1 --eval.every=0 --checkpoint.every=0 \
  >"$work/out" 2>"$work/err" ||
  grep -q '^error' "$work/err"; then
  echo "FAIL: a false alarm about a worker that waits"
  cat "$work/err"
  rc=1
fi

# Storage that stalls while results are written: told once, no alarm before the
# limit.
stall() { # stall SECONDS IO_TIMEOUT
  command -v strace >/dev/null || { echo "strace is not installed"; return 0; }
  cat >"$work/rank.sh" <<END
#!/usr/bin/env bash
if [[ \${PMI_RANK:-\${OMPI_COMM_WORLD_RANK:-}} == 0 ]]; then
  exec strace -f -qq -o /dev/null -e trace=fsync \
    -P "$work/runs/stall-$1/.results.h5.tmp" -e inject=fsync:delay_enter=$1s:when=1 "\$@"
fi
exec "\$@"
END
  chmod +x "$work/rank.sh"
  if ! $MPIEXEC -bind-to none -n 3 "$work/rank.sh" "$SYNCOPATE" train \
    "$work/tiny.ini" --run.directory="$work/runs" --run.name="stall-$1" \
    --run.io_timeout_s="$2" >"$work/out" 2>"$work/err" ||
    grep -q '^error' "$work/err"; then
    echo "FAIL: an alarm while storage stalled for $1 s"
    cat "$work/err"
    rc=1
  elif [[ $(grep -c '^note: rank 0: waiting for storage' "$work/err") != 1 ]]; then
    echo "FAIL: not one note that storage stalls"
    cat "$work/err"
    rc=1
  fi
}
if [[ ${EXHAUSTIVE:-0} == 1 ]]; then stall 62 120; else stall 6 10; fi
exit "$rc"
