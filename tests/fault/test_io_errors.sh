#!/usr/bin/env bash
# ENOSPC, EIO and EDQUOT at the system calls of three checkpoint cycles (every
# fifth, or all under EXHAUSTIVE=1): a failed write, fsync or rename that
# commits ends the run with one line and exit code 73 or 74, never a crash, and
# what was acknowledged before is whole.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"
require_strace

strike() {
  local workers=$1 name=$2 k=$3 error=$4 run rc=0
  local what="$1 workers, $4 at $2 $3"
  run=$(mktemp -d "$work/run.XXXXXX")
  mkdir "$run/d"
  { strace -qq -o /dev/null -e trace="$name" \
    -e inject="$name:error=$error:when=$k" \
    "$driver" save "$run/d" "$workers" 3 >"$run/out" 2>"$run/err"; } || rc=$?
  if [[ $rc == 0 ]]; then
    # Only what is best effort (pruning, looking around, closing what was only
    # read) may fail without a word, and then nothing may be missing.
    case $name in
      pwrite64 | write | fsync)
        echo "$what: went unnoticed"
        return 1
        ;;
    esac
    if [[ -s $run/err || $(acknowledged "$run/out") != 3 ]]; then
      echo "$what: exit 0 with $(cat "$run/out" "$run/err")"
      return 1
    fi
    echo harmless >>"$work/tally"
  elif [[ $rc != 73 && $rc != 74 ]] || [[ $(wc -l <"$run/err") != 1 ]] ||
    ! grep -q '^error: ' "$run/err"; then
    echo "$what: exit $rc with: $(cat "$run/err")"
    return 1
  elif ! grep -Eq 'No space left|Input/output error|Disk quota' "$run/err"; then
    echo "$what: the line does not say why: $(cat "$run/err")"
    return 1
  else
    echo reported >>"$work/tally"
  fi
  rc=0
  "$driver" verify "$run/d" "$workers" "$(acknowledged "$run/out")" \
    >"$run/verify" 2>&1 || rc=$?
  if [[ $rc != 0 ]] || grep -q damaged "$run/verify"; then
    echo "$what: $(cat "$run/verify")"
    return 1
  fi
  rm -rf "$run"
}

calls=(openat pwrite64 write fsync rename close mkdir ftruncate)
{
  points 1 "${calls[@]}"
  points 2 "${calls[@]}"
} | awk '{ print $0, "ENOSPC"; print $0, "EIO"; print $0, "EDQUOT" }' |
  every 11 >"$work/points"
in_parallel strike <"$work/points"
[[ $(grep -c reported "$work/tally") -ge 20 ]]
echo "$(wc -l <"$work/points") injected errors:" \
  "$(grep -c reported "$work/tally") reported in one line," \
  "$(grep -c harmless "$work/tally" || true) harmless, nothing lost"
