# shellcheck shell=bash
# The common part of the job scripts, independent of their #SBATCH lines.
# Sourced with root=CHECKOUT, then
#   train_and_requeue INPUT.ini [--section.key=value ...]
# trains with one rank per task. The run resumes from its last checkpoint, if
# there is one. If it was stopped before its end, the job requeues itself;
# otherwise the function returns the program's exit code:
#   0, 64 to 74, 76 ...  finished, or failed in a way that a restart cannot fix
#   75  stopped by a file STOP, or three restarts in a row brought no newer
#       checkpoint, or this job may not be requeued: submit again to resume
# Two codes are treated like 75 because the last checkpoint is intact: 71 (a
# rank died or hung) and 138 (SIGUSR1 arrived before the program handled it).
# If Slurm itself detects a dead node, it requeues the job.
# Environment: RESTARTS_WITHOUT_PROGRESS, instead of three; the variables of
# jobs/env/site.sh.
# RUN/restarts.txt, in the run's directory, records the step at which each job
# starts, and at which it requeues itself.

: "${root:?the checkout, as the job scripts find it}"
case ${1:-} in -h | --help)
  sed -n '2,/^#SBATCH/{/^#SBATCH/d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac
# Under sbatch --export=NONE, srun would pass on as little to the ranks.
unset SLURM_EXPORT_ENV
# shellcheck source=env/site.sh
source "$root/jobs/env/site.sh"
load_site "$root" || exit
allowed_restarts=${RESTARTS_WITHOUT_PROGRESS:-3}

# The last task of an array has the same number as the whole array, so compare
# complete ids.
this_job() {
  if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]]; then
    echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    echo "$SLURM_JOB_ID"
  fi
}

value_of() { # value_of NAME STATUS: a value in the output of `syncopate status`
  sed -n "s/^$1  *//p" <<<"$2"
}

# Whether this job has started the run: restarts.txt ($1) begins with its line.
has_started() {
  [[ -r $1 && $(head -n 1 "$1") == "job $(this_job) restart 0 "* ]]
}

# The number of starts of this job at step $2 according to restarts.txt ($1). If
# the newest checkpoint is still that of step $2, these made no progress.
idle_restarts() {
  local number=0
  [[ ! -r $1 ]] ||
    number=$(grep -c "^job $(this_job) restart [1-9][0-9]* step $2\$" "$1") || true
  echo "$number"
}

# Starts one MPI world over all components of a heterogeneous job, or over the
# nodes of an ordinary one.
start_ranks() {
  local group cpus words=(srun --kill-on-bad-exit=1)
  for ((group = 0; group < ${SLURM_HET_SIZE:-1}; group++)); do
    cpus=SLURM_CPUS_PER_TASK
    if [[ -n ${SLURM_HET_SIZE:-} ]]; then
      ((group == 0)) || words+=(:)
      words+=("--het-group=$group")
      cpus+=_HET_GROUP_$group
    fi
    words+=(--mpi="$mpi" --cpus-per-task="${!cpus:-1}" "${srun_options[@]}"
      "$syncopate" train "$@")
  done
  "${words[@]}"
}

train_and_requeue() {
  local status directory step history job is_new='' code=0
  if [[ -z ${1:-} ]]; then
    echo "usage: sbatch SCRIPT INPUT.ini [--section.key=value ...]" >&2
    return 64
  fi
  if [[ -z ${SLURM_JOB_ID:-} ]]; then
    echo "error: not inside a Slurm job: submit this script with sbatch" >&2
    return 64
  fi
  job=$(this_job)
  status=$("$syncopate" status "$@") || return
  directory=$(value_of directory "$status")
  step=$(value_of step "$status")
  history=$directory/restarts.txt
  echo "$(date -u +%FT%TZ) job $job restart ${SLURM_RESTART_COUNT:-0} on" \
    "$SLURM_JOB_NODELIST, checkpoint of step $step: train $*"
  # If a node fails, this script ends before it can count the restart.
  if ((${SLURM_RESTART_COUNT:-0} > 0)) &&
    (($(idle_restarts "$history" "$step") >= allowed_restarts)); then
    no_progress "$step"
    return 75
  fi
  # checkpoint.resume = none refuses the runs of others, not the job's own.
  if ((${SLURM_RESTART_COUNT:-0} > 0)) && has_started "$history" &&
    { [[ " $* " == *" --checkpoint.resume=none "* ]] ||
      grep -qs '^ *resume *= *none' "$1"; }; then
    local words=() word
    for word in "$@"; do
      [[ $word == --checkpoint.resume=none ]] || words+=("$word")
    done
    set -- "${words[@]}" --checkpoint.resume=auto
  fi
  # If the folder cannot be created, the program reports it.
  [[ -d $directory ]] || is_new=yes
  mkdir -p "$directory" 2>/dev/null || true
  echo "job $job restart ${SLURM_RESTART_COUNT:-0} step $step" \
    2>/dev/null >>"$history" || true

  start_ranks "$@" || code=$?
  case $code in
    75 | 71 | 138) ;;
    64 | 65 | 66) # refused: leave no folder
      [[ -z $is_new ]] || { rm -f "$history" && rmdir "$directory"; } 2>/dev/null || true
      return "$code"
      ;;
    *) return "$code" ;;
  esac

  status=$("$syncopate" status "$@") || return
  step=$(value_of step "$status")
  if ((code == 75)) && [[ $(value_of stopped_by "$status") == "STOP file" ]]; then
    echo "stopped by a file STOP at step $step: submit again to resume"
    return 75
  fi
  if (($(idle_restarts "$history" "$step") >= allowed_restarts)); then
    no_progress "$step"
    return "$code"
  fi
  echo "code $code, checkpoint of step $step: queueing job $job again"
  # `syncopate status` reads this. Written first, as Slurm may end this script at
  # once.
  echo "job $job requeued step $step" 2>/dev/null >>"$history" || true
  if ! scontrol requeue "$job"; then
    echo "job $job kept step $step" 2>/dev/null >>"$history" || true
    echo "this job cannot be requeued: submit it again to resume"
    return "$code"
  fi
  sleep 60 # until Slurm ends this script
  return "$code"
}

no_progress() { # no_progress STEP
  echo "error: no checkpoint beyond step $1 after restart" \
    "${SLURM_RESTART_COUNT:-0}, $allowed_restarts allowed: not queued again;" \
    "give it more time (sbatch --time) or a smaller checkpoint.every, then" \
    "submit it again" >&2
}
