#!/usr/bin/env bash
# Compares variants of an input fairly: the best value of one key for each on
# the validation split, then several seeds on the test set with that value.
#   jobs/sweep.sh --local SWEEP [--jobs=J] [--dry-run] [--section.key=value ...]
# SWEEP is a text file (inputs/compare_schemes.sweep explains its lines). J runs
# at a time, with cores / J threads each (a run a core unless told). Keys on the
# command line hold for all runs: --data.path=DIR.
#
# Run again after an interruption of any kind: finished runs are kept, others
# resume. Results are in the sweep's directory:
#   tuning.txt      every tuning run and the value chosen for each variant
#   comparison.md   postprocess/compare.py over the final runs
#   comparison.png  postprocess/plot.py over the final runs
#   tune/ final/    the runs, and what they printed in NAME.out
# Environment: SYNCOPATE, the program (build/release/syncopate, build/cpu/...);
# PYTHON, one with h5py and matplotlib.
# Exit codes: 0 all there; 1 runs failed, listed last; 64 to 66 as syncopate's;
# 75 and 130 stopped by a signal: run again to go on. A run that diverges is a
# result, not a failure.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=env/python.sh
source "$root/jobs/env/python.sh"

case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
if [[ ${1:-} != --local ]] || (($# < 2)); then
  echo "error: usage: jobs/sweep.sh --local SWEEP [--jobs=J] [--dry-run]" \
    "[--section.key=value ...]" >&2
  exit 64
fi

if [[ -z ${SYNCOPATE:-} ]]; then
  SYNCOPATE=$root/build/release/syncopate
  [[ -x $SYNCOPATE ]] || SYNCOPATE=$root/build/cpu/syncopate
fi
[[ -x $SYNCOPATE ]] || {
  echo "error: $SYNCOPATE: not built" >&2
  exit 66
}
export SYNCOPATE
# Machines are shared: threads that wait soon let go of a core.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000}
python=$(find_python "$root")
exec "$python" "$root/jobs/sweep.py" "${@:2}"
