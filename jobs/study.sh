#!/usr/bin/env bash
# Completes a study: runs what is missing, records it, judges the rules and draws
# the figure.
#   jobs/study.sh NAME [--local|--slurm] [--size=short] [--jobs=J] [--dry-run]
#                      [--again] [--section.key=value ...]
# NAME is a folder of inputs/studies/, or any folder with a study.sweep. The
# other arguments are those of jobs/sweep.sh (--local by default), because a study
# is a sweep with rules. Start it again after an interruption: finished runs are
# kept and the others resume.
# Writes results.csv, curves.csv and figure-SIZE.png next to study.sweep. A run in
# results.csv counts as finished, even without its folder, if the same input made
# it; --again ignores recorded runs.
# Exit codes: as in jobs/sweep.sh. A rule that does not hold is a result, not a
# failure.
set -euo pipefail
unset CDPATH # with which cd may print, or go elsewhere
root=$(cd "$(dirname "$0")/.." && pwd)
case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
if (($# == 0)) || [[ $1 == -* ]]; then
  echo "error: usage: jobs/study.sh NAME [--local|--slurm] [--size=NAME]" \
    "[--jobs=J] [--dry-run] [--again] [--section.key=value ...]" >&2
  exit 64
fi
study=$root/inputs/studies/$1/study.sweep
[[ -f $study ]] || study=$1/study.sweep
if [[ ! -f $study ]]; then
  names=$(cd "$root/inputs/studies" && printf ' %s' */)
  echo "error: $1: no such study; there are${names//\//}" >&2
  exit 66
fi
mode=--local words=()
for word in "${@:2}"; do
  case $word in
  --local | --slurm) mode=$word ;;
  *) words+=("$word") ;;
  esac
done
exec "$root/jobs/sweep.sh" "$mode" "$study" "${words[@]}"
