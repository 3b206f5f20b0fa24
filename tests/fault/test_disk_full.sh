#!/usr/bin/env bash
# A disk that is really full: file systems of many sizes, and a limit on the
# size of a file. One line, exit code 73 or 74, what was acknowledged is whole.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

# check RUN RC WHAT: after a save of five cycles on a place that may be full.
failures=0
check() {
  local run=$1 rc=$2 what=$3
  if [[ $rc != 0 ]]; then
    failures=$((failures + 1))
    if [[ $rc != 73 && $rc != 74 ]] || [[ $(wc -l <"$work/err") != 1 ]]; then
      echo "$what: exit $rc with: $(cat "$work/err")"
      exit 1
    fi
  fi
  "$driver" verify "$run" 2 "$(acknowledged "$work/out")" || {
    echo "$what: lost"
    exit 1
  }
}

for kib in 1 2 4 8 12 16 20 24 32; do
  rm -rf "$work/limited"
  mkdir "$work/limited"
  rc=0
  (
    trap '' XFSZ
    ulimit -f "$kib"
    exec "$driver" save "$work/limited" 2 5
  ) >"$work/out" 2>"$work/err" || rc=$?
  check "$work/limited" "$rc" "files of at most $kib KiB"
done
[[ $failures -ge 3 ]]  # the limit was felt
echo "a limit on the size of files: $failures runs ended in one line each"

mkdir "$work/disk"
mount -t tmpfs -o size=64k tmpfs "$work/disk" 2>"$work/why" ||
  skip "no small file system can be mounted: $(head -1 "$work/why")"
trap 'umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
failures=0
for kib in $(seq 16 8 200); do
  umount "$work/disk"
  mount -t tmpfs -o "size=${kib}k" tmpfs "$work/disk"
  rc=0
  "$driver" save "$work/disk" 2 5 >"$work/out" 2>"$work/err" || rc=$?
  check "$work/disk" "$rc" "a disk of $kib KiB"
done
[[ $failures -ge 3 ]]
echo "full disks of 16 to 200 KiB: $failures runs ended in one line each"
