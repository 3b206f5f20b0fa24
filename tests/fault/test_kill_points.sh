#!/usr/bin/env bash
# kill -9 at every system call of three checkpoint cycles that touches the run
# (every seventh, or all under EXHAUSTIVE=1), with one worker and with two: no
# acknowledged checkpoint is lost, no half one is taken, results.h5 is whole,
# and a run over the leftovers succeeds.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
require_strace

strike() {
  local workers=$1 name=$2 k=$3 run rc=0
  run=$(mktemp -d "$work/run.XXXXXX")
  mkdir "$run/d"
  { strace -qq -o /dev/null -e trace="$name" \
    -e inject="$name:signal=KILL:when=$k" \
    "$driver" save "$run/d" "$workers" 3 >"$run/out"; } 2>/dev/null || rc=$?
  if [[ $rc != 137 ]]; then
    echo "$workers workers, $name $k: exit $rc where a kill was expected"
    return 1
  fi
  "$driver" verify "$run/d" "$workers" "$(acknowledged "$run/out")" \
    >"$run/verify" 2>&1 || {
    echo "$workers workers, killed at $name $k: $(cat "$run/verify")"
    return 1
  }
  if grep -q damaged "$run/verify"; then
    echo "$workers workers, killed at $name $k: $(cat "$run/verify")"
    return 1
  fi
  { "$driver" save "$run/d" "$workers" 3 &&
    "$driver" verify "$run/d" "$workers" 3; } >"$run/verify" 2>&1 || {
    echo "$workers workers, killed at $name $k, then: $(cat "$run/verify")"
    return 1
  }
  rm -rf "$run"
}

calls=(openat pwrite64 write fsync fdatasync rename renameat renameat2 close
  unlink unlinkat rmdir mkdir mkdirat ftruncate flock fcntl pread64)
# A sanitizer reads /proc/self/maps, not always as often.
ldd "$driver" | grep 'lib[at]san' >/dev/null || calls+=(read)
{
  points 1 "${calls[@]}"
  points 2 "${calls[@]}"
} | every 7 >"$work/points"
in_parallel strike <"$work/points"
echo "$(wc -l <"$work/points") kill points: nothing acknowledged was lost"
