#!/usr/bin/env bash
# Compares variants of an input fairly: the best value of one key for each on
# the validation split, then several seeds on the test set with that value.
#   jobs/sweep.sh --local SWEEP [--jobs=J] [--dry-run] [--section.key=value ...]
#   jobs/sweep.sh --slurm SWEEP [--jobs=J] [--dry-run] [--sbatch="OPTION ..."]
#                         [--section.key=value ...]
# SWEEP is a text file (inputs/compare_schemes.sweep explains its lines). Keys on
# the command line hold for all runs: --data.path=DIR. J runs at a time:
#   --local  with cores / J threads each (a run a core unless told), here
#   --slurm  (no limit unless told) as tasks of array jobs, each with the cores of
#            --run.threads (1); then the choice, the final runs, the comparison.
#            OPTIONs of sbatch are for the runs: --sbatch="--time=04:00:00".
#            Account, partition, modules: the site file, as for jobs/submit.sh.
# Both give the same numbers where run.threads is the same.
#
# Run again after an interruption of any kind: finished runs are kept, others
# resume. A task that meets its time limit queues itself again. Results are in
# the sweep's directory:
#   tuning.txt      every tuning run and the value chosen for each variant
#   comparison.md   postprocess/compare.py over the final runs
#   comparison.png  postprocess/plot.py over the final runs
#   tune/ final/    the runs, and what they printed in NAME.out
#   jobs/           what the jobs of --slurm printed
# Environment: SYNCOPATE, the program (build/release/syncopate, build/cpu/...);
# PYTHON, one with h5py and matplotlib; SITE, the site file.
# Exit codes: 0 all there (--slurm: submitted); 1 runs failed, listed last; 64 to
# 66 as syncopate's; 69 Slurm refused; 73 jobs of this sweep are still queued; 75
# and 130 stopped by a signal: run again to go on. A run that diverges is a
# result, not a failure.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=env/python.sh
source "$root/jobs/env/python.sh"
# shellcheck source=env/site.sh
source "$root/jobs/env/site.sh"

case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
if [[ ${1:-} != --local && ${1:-} != --slurm ]] || (($# < 2)); then
  echo "error: usage: jobs/sweep.sh --local|--slurm SWEEP [--jobs=J]" \
    "[--dry-run] [--section.key=value ...]" >&2
  exit 64
fi

load_site "$root"
PYTHON=$(find_python "$root")
export SYNCOPATE=$syncopate SYNCOPATE_ROOT=$root PYTHON
# Machines are shared: threads that wait soon let go of a core.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000}
if [[ $1 == --slurm ]]; then
  exec "$PYTHON" "$root/jobs/sweep_slurm.py" submit "${@:2}"
fi
exec "$PYTHON" "$root/jobs/sweep.py" "${@:2}"
