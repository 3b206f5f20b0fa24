# shellcheck shell=bash
# What the job scripts do inside a Slurm job, whatever their #SBATCH lines ask
# for. Sourced, then
#   train_and_requeue INPUT.ini [--section.key=value ...]
# trains with one rank a task. The run goes on from its last checkpoint, if
# there is one, and when it was stopped before its end the job queues itself
# again. Returns the program's exit code where it does not:
#   0, 64 to 74, 76 ...  as the program says; nothing to go on with
#   75  stopped by a file STOP, or the third restart in a row has brought no
#       newer checkpoint, or this job may not queue again: submit again to go on
# Two codes are met like 75, for the last checkpoint is whole: 71, a rank or its
# node died or hangs; 138, SIGUSR1 came before the program listened. A node that
# Slurm itself finds dead makes Slurm queue the job again.
# Environment: RESTARTS_WITHOUT_PROGRESS, instead of three; those of
# jobs/env/site.sh.
# RUN/restarts.txt, in the run's directory, says which job began where.

root=${SYNCOPATE_ROOT:-$PWD}
# shellcheck source=env/site.sh
source "$root/jobs/env/site.sh"
load_site "$root" || exit
allowed_restarts=${RESTARTS_WITHOUT_PROGRESS:-3}

# The last task of an array has the number of the whole array: be exact.
this_job() {
  if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]]; then
    echo "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    echo "$SLURM_JOB_ID"
  fi
}

value_of() { # value_of NAME STATUS: a line of `syncopate status`
  sed -n "s/^$1  *//p" <<<"$2"
}

# How often this job was started again at step $2 by restarts.txt ($1). Asked
# when the newest checkpoint is still that of step $2: they got no further.
idle_restarts() {
  local number=0
  [[ ! -r $1 ]] ||
    number=$(grep -c "^job $(this_job) restart [1-9][0-9]* step $2\$" "$1") || true
  echo "$number"
}

# One MPI world over all components of a heterogeneous job, or over the nodes of
# a simple one.
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
  local status directory step history job code=0
  if (($# == 0)); then
    echo "usage: sbatch SCRIPT INPUT.ini [--section.key=value ...]" >&2
    return 64
  fi
  job=$(this_job)
  status=$("$syncopate" status "$@") || return
  directory=$(value_of directory "$status")
  step=$(value_of step "$status")
  history=$directory/restarts.txt
  echo "$(date -u +%FT%TZ) job $job restart ${SLURM_RESTART_COUNT:-0} on" \
    "$SLURM_JOB_NODELIST, checkpoint of step $step: train $*"
  # A node that fails ends this script before it can count.
  if ((${SLURM_RESTART_COUNT:-0} > 0)) &&
    (($(idle_restarts "$history" "$step") >= allowed_restarts)); then
    no_progress "$step"
    return 75
  fi
  # Where the folder cannot be made, the program says so.
  mkdir -p "$directory" 2>/dev/null || true
  echo "job $job restart ${SLURM_RESTART_COUNT:-0} step $step" \
    2>/dev/null >>"$history" || true

  start_ranks "$@" || code=$?
  case $code in 75 | 71 | 138) ;; *) return "$code" ;; esac

  status=$("$syncopate" status "$@") || return
  step=$(value_of step "$status")
  if ((code == 75)) && [[ $(value_of stopped_by "$status") == "STOP file" ]]; then
    echo "stopped by a file STOP at step $step: submit again to go on"
    return 75
  fi
  if (($(idle_restarts "$history" "$step") >= allowed_restarts)); then
    no_progress "$step"
    return "$code"
  fi
  echo "code $code, checkpoint of step $step: queueing job $job again"
  if ! scontrol requeue "$job"; then
    echo "this job cannot queue again: submit again to go on"
    return "$code"
  fi
  sleep 60 # until Slurm ends this script
  return "$code"
}

no_progress() { # no_progress STEP
  echo "error: no checkpoint beyond step $1 after restart" \
    "${SLURM_RESTART_COUNT:-0}, $allowed_restarts allowed: not queued again; more" \
    "time (sbatch --time) or a smaller checkpoint.every may let it get on; then" \
    "submit again"
}
