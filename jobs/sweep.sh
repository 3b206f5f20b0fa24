#!/usr/bin/env bash
# Compares variants of an input fairly: tunes one key for each variant on the
# validation split, then runs several seeds on the test set with the best value.
#   jobs/sweep.sh --local SWEEP [--jobs=J] [--dry-run] [--section.key=value ...]
#   jobs/sweep.sh --slurm SWEEP [--jobs=J] [--dry-run] [--sbatch="OPTION ..."]
#                         [--section.key=value ...]
# SWEEP is a text file (inputs/compare_schemes.sweep explains its lines). Keys on
# the command line, such as --data.path=DIR, apply to all runs. For a study there
# are also --size=NAME and --again (jobs/study.sh). J limits the number of
# concurrent runs:
#   --local  on this machine, cores / J threads per run (J: one run per core)
#   --slurm  as tasks of array jobs with --run.threads (1) cores each (J: no
#            limit), followed by jobs for the choice, the final runs and the
#            comparison. --sbatch="--time=04:00:00" passes options to the runs;
#            the site file gives account, partition and modules (jobs/submit.sh).
# Both give the same numbers if run.threads is the same.
#
# After an interruption of any kind, start it again: finished runs are kept and
# the others resume. A task that reaches its time limit requeues itself. Results
# are in the sweep's directory:
#   tuning.txt      every tuning run and the value chosen for each variant
#   comparison.md   postprocess/compare.py over the final runs: one that was cut
#                   short is unfinished, and a note counts those without results
#   comparison.png  postprocess/plot.py over the final runs
#   tune/ final/    the runs, and their output in NAME.out
#   jobs/           the output of the jobs of --slurm
# With command = simulate (inputs/scaling.sweep, --local) nothing is trained: final/
# contains NAME.h5 for each simulation, and postprocess/scaling_plot.py draws
# scaling.png.
# Environment: SYNCOPATE, the program (build/release/syncopate, build/cpu/...);
# PYTHON, one with h5py and matplotlib; SITE, the site file; SYNCOPATE_RUNS,
# the folder that a leading runs/ of the sweep's directory stands for.
# Exit codes: 0 complete (--slurm: submitted); 1 runs failed, listed last; 64 to
# 66 as in syncopate; 69 Slurm refused; 73 another sweep is at work there, or jobs
# of this one are queued; 75 and 130 stopped by a signal or by the end of the Slurm
# job that this runs in: start again to resume. A run that diverges is a result,
# not a failure.
set -euo pipefail
unset CDPATH # with which cd may print, or go elsewhere
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
if [[ $1 == --slurm ]]; then
  exec "$PYTHON" "$root/jobs/sweep_slurm.py" submit "${@:2}"
fi
exec "$PYTHON" "$root/jobs/sweep.py" "${@:2}"
