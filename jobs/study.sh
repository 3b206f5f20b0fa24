#!/usr/bin/env bash
# Runs what is missing of a study, records it, judges its rules and draws its
# figure.
#   jobs/study.sh NAME [--local|--slurm] [--size=short] [--jobs=J] [--dry-run]
#                      [--again] [--section.key=value ...]
# NAME is a folder of inputs/studies/, or any folder with a study.sweep. The
# other words are those of jobs/sweep.sh (--local by default), which this is: a
# sweep with rules. Start it again after an interruption: finished runs are kept
# and the others resume.
# Written beside study.sweep: results.csv, curves.csv, figure-SIZE.png. A run that
# results.csv has counts as finished, also without its folder, if it was made by
# the same input; --again ignores what is recorded.
# Exit codes: as in jobs/sweep.sh. A rule that does not hold is a result, not a
# failure.
set -euo pipefail
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
mode=--local
case ${2:-} in --local | --slurm)
  mode=$2
  set -- "$1" "${@:3}"
  ;;
esac
exec "$root/jobs/sweep.sh" "$mode" "$study" "${@:2}"
