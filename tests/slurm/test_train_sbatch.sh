#!/usr/bin/env bash
# jobs/train.sbatch, submitted for real to a private Slurm: two nodes with two
# ranks each; a job that is told to stop queues again, resumes, and ends with
# the same model; a job that used up its restarts ends with code 75.
set -uo pipefail
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
export SYNCOPATE=${SYNCOPATE:-$source_dir/build/cpu/syncopate}
[[ -x $SYNCOPATE ]] || { echo "$SYNCOPATE: not built" >&2; exit 66; }
cd "$source_dir" || exit 66
work=$(mktemp -d)
cluster=$work/cluster
failures=0

cleanup() {
  "$source_dir/tests/slurm/cluster.sh" stop "$cluster" >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT

reason=$(tests/slurm/cluster.sh start "$cluster")
rc=$?
((rc == 0)) || { echo "$reason"; exit "$rc"; }
export SLURM_CONF=$cluster/slurm.conf
srun --mpi=list 2>&1 | grep -q pmi2 || { echo "no Slurm here: no pmi2 plugin"; exit 77; }

failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
submit() { # submit NAME ARGUMENT...: the job's number
  local name=$1
  shift
  sbatch --parsable --output="$work/$name.out" --job-name="$name" \
    jobs/train.sbatch inputs/smoke.ini --run.directory="$work/runs" \
    --run.name="$name" --run.workers=auto --run.threads=1 "$@"
}
state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
exit_code() { scontrol show job "$1" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p'; }
field() { sed -n "s/.* $2=\([0-9]*\).*/\1/p" < <(scontrol show job "$1"); }
wait_for() { # wait_for SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
is_over() { [[ $(state "$1") =~ COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL ]]; }
is_queued_again() { [[ $(field "$1" Restarts) == 1 && $(state "$1") == PENDING ]]; }
step_has_ended() { # on every node that it was launched on
  local log launched ended
  for log in "$cluster"/slurmd-n*.log; do
    launched=$(grep -c "launch task StepId=$1\.0 " "$log")
    ended=$(grep -c "\[$1\.0\] done with job" "$log")
    ((launched == ended)) || return 1
  done
}
# A first row of the log says that training is under way on all ranks.
is_training() { grep -q '^step ' "$work/$1.out" 2>/dev/null; }
show() { sed 's/^/    /' "$work/$1.out"; }
conclude() { # conclude NAME FAILURES-BEFORE TEXT
  if ((failures == $2)); then echo "ok: $3"; else show "$1"; fi
}
newest_digest() { # of the model in the newest checkpoint
  local newest
  newest=$(printf '%s\n' "$work/runs/$1"/checkpoints/step-* | sort | tail -n 1)
  [[ -f $newest/replica.h5 ]] && sha256sum <"$newest/replica.h5"
}

# 1. Four ranks on two nodes, to the end.
job=$(submit plain)
wait_for 120 is_over "$job" || failed "plain: still $(state "$job")"
[[ $(state "$job") == COMPLETED && $(exit_code "$job") == 0 ]] ||
  failed "plain: $(state "$job"), exit $(exit_code "$job")"
[[ $(field "$job" NumNodes) == 2 ]] || failed "plain: not on two nodes"
grep -q '4 MPI ranks' "$work/plain.out" ||
  failed "plain: the log does not say 4 MPI ranks"
"$SYNCOPATE" inspect "$work/runs/plain/results.h5" >"$work/inspect" 2>&1 ||
  failed "plain: results: $(<"$work/inspect")"
"$SYNCOPATE" inspect "$work/runs/plain/checkpoints/step-00000040" \
  >"$work/inspect" 2>&1 || failed "plain: checkpoint: $(<"$work/inspect")"
conclude plain 0 "two nodes with two ranks each"

# 2. Told to stop, as two minutes before its time limit.
steps=(--run.steps=400 --run.log_every=5 --checkpoint.every=100)
before=$failures
job=$(submit stopped "${steps[@]}")
wait_for 60 is_training stopped || failed "stopped: does not train"
scancel --signal=USR1 "$job"
wait_for 60 is_queued_again "$job" ||
  failed "stopped: $(state "$job") after the signal, not queued again"
# By itself Slurm waits two minutes. Before that, slurmd refuses what was queued
# in the second in which it killed the job (its credentials count whole seconds),
# and a step meets the daemon of its predecessor, which has the same number.
sleep 2
wait_for 60 step_has_ended "$job" || failed "stopped: its first step goes on"
scontrol update jobid="$job" starttime=now
wait_for 150 is_over "$job" || failed "stopped: still $(state "$job")"
[[ $(state "$job") == COMPLETED && $(exit_code "$job") == 0 ]] ||
  failed "stopped: $(state "$job"), exit $(exit_code "$job")"
grep -q 'restart 1' "$work/stopped.out" || failed "stopped: did not restart"
job=$(submit straight "${steps[@]}")
wait_for 120 is_over "$job" || failed "straight: still $(state "$job")"
digest=$(newest_digest straight)
[[ -n $digest && $digest == "$(newest_digest stopped)" ]] ||
  failed "the model of the stopped and resumed job is another one"
conclude stopped "$before" "stopped, queued again, resumed, same model"

# 3. No restarts left.
before=$failures
job=$(MAX_RESTARTS=0 submit last "${steps[@]}")
wait_for 60 is_training last || failed "last: does not train"
scancel --signal=USR1 "$job"
wait_for 60 is_over "$job" || failed "last: still $(state "$job")"
[[ $(exit_code "$job") == 75 ]] || failed "last: exit $(exit_code "$job"), not 75"
conclude last "$before" "without restarts left the code is 75"

((failures == 0))
