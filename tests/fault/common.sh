# Shared by the fault tests: the driver, a scratch folder, and the list of
# system calls at which to strike.
# shellcheck shell=bash
set -euo pipefail

driver=$BUILD_DIR/tests/fault/checkpoint_driver
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export driver work ASAN_OPTIONS=detect_leaks=0  # LeakSanitizer bars tracing

skip() {
  echo "skipped: $1"
  exit 77
}
[[ -x $driver ]] || {
  echo "no $driver: build the target checkpoint_driver"
  exit 1
}

require_strace() {
  command -v strace >/dev/null || skip "strace is not installed"
  strace -qq -o /dev/null -e trace=close -e inject=close:error=EIO:when=60000 \
    true 2>"$work/why" || skip "strace cannot inject here: $(head -1 "$work/why")"
}

# points WORKERS SYSCALL...: "WORKERS SYSCALL K" for each K-th call of SYSCALL,
# in a run of three cycles, that names a path or descriptor of the run.
points() {
  local workers=$1 IFS=,
  shift
  rm -rf "$work/list"
  mkdir "$work/list"
  strace -qq -y -o "$work/log" -e trace="$*" \
    "$driver" save "$work/list" "$workers" 3 >/dev/null
  awk -v run="$work/list" -v workers="$workers" '
    match($0, /^[a-z0-9_]+\(/) {
      name = substr($0, 1, RLENGTH - 1)
      ++count[name]
      if (index($0, run)) print workers, name, count[name]
    }' "$work/log"
}

# every N: of the lines of standard input; all of them under EXHAUSTIVE=1.
every() {
  if [[ ${EXHAUSTIVE:-0} == 1 ]]; then cat; else awk -v n="$1" 'NR % n == 1'; fi
}

# in_parallel FUNCTION: once for each line of standard input, its words as
# arguments; two at a time. Fails if any did.
in_parallel() {
  export -f "${1?}"
  xargs -P 2 -L 1 bash -euo pipefail -c "$1"' "$@" || exit 1' "$1"
}

# acknowledged FILE: the last N of "committed N", 0 if none.
acknowledged() {
  awk '/^committed / { n = $2 } END { print n + 0 }' "$1"
}
export -f acknowledged
