# shellcheck shell=bash
# Shared by the tests on a private Slurm: starts one, or ends the test with code
# 77 and the reason. Source it; it needs $SYNCOPATE.
unset CDPATH
source_dir=${SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
export SYNCOPATE=${SYNCOPATE:-$source_dir/build/cpu/syncopate}
[[ -x $SYNCOPATE ]] || { echo "$SYNCOPATE: not built" >&2; exit 66; }
unset SITE SYNCOPATE_ROOT # a developer's own
cd "$source_dir" || exit 66
work=$(mktemp -d)
cluster=$work/cluster
failures=0

cleanup() {
  "$source_dir/tests/slurm/cluster.sh" stop "$cluster" >/dev/null 2>&1
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

start_cluster() {
  local code=0 reason
  reason=$(tests/slurm/cluster.sh start "$cluster") || code=$?
  ((code == 0)) || { echo "$reason"; exit "$code"; }
  export SLURM_CONF=$cluster/slurm.conf
  srun --mpi=list 2>&1 | grep -q pmi2 ||
    { echo "no Slurm here: no pmi2 plugin"; exit 77; }
}

failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
# conclude NAME FAILURES-BEFORE TEXT: shows the job's output after a failure.
conclude() {
  if ((failures == $2)); then
    echo "ok: $3 (at $SECONDS s)"
  else
    sed '/^step /d; s/^/    /' "$work/$1.out" | tail -n 40
  fi
}
finish() {
  ((failures == 0)) || { echo "$failures checks failed"; exit 1; }
}

# submit NAME [SBATCH-OPTION ...] jobs/SCRIPT [KEY ...]: the job's number.
submit() {
  local name=$1 options=()
  shift
  while [[ $1 != jobs/* ]]; do
    options+=("$1")
    shift
  done
  sbatch --parsable --output="$work/$name.out" --job-name="$name" \
    "${options[@]}" "$1" inputs/smoke.ini --run.directory="$work/runs" \
    --run.name="$name" --run.workers=auto --run.threads=1 --eval.every=0 \
    "${@:2}"
}
# Of the first component, where there are several.
state() {
  scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1
}
exit_code() { field "$1" ExitCode; }
field() { scontrol show job "$1" | sed -n "s/.* $2=\([0-9]*\).*/\1/p" | head -n 1; }
shows() { grep -Eq -- "$2" "$work/$1.out" 2>/dev/null; }
expect_shown() { shows "$1" "$2" || failed "$1: the log does not say: $2"; }

wait_for() { # wait_for SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}
is_over() { [[ $(state "$1") =~ ^(COMPLETED|FAILED|TIMEOUT|CANCELLED|NODE_FAIL) ]]; }
is_queued_for() { # is_queued_for JOB RESTART: or will not be
  is_over "$1" || [[ $(state "$1") == PENDING && $(field "$1" Restarts) == "$2" ]]
}
# A row of the log of this start says that training is under way on all ranks.
is_training() { # is_training NAME RESTART
  sed -n "/ restart $2 on /,\$p" "$work/$1.out" 2>/dev/null | grep -q '^step '
}
expect_end() { # expect_end NAME JOB STATE CODE
  wait_for 120 is_over "$2" || failed "$1: still $(state "$2")"
  [[ $(state "$2") == "$3" && $(exit_code "$2") == "$4" ]] ||
    failed "$1: $(state "$2"), exit $(exit_code "$2"), not $3, $4"
}

steps_have_ended() { # steps_have_ended JOB: on every node that they were on
  local log launched ended
  for log in "$cluster"/slurmd-n*.log; do
    launched=$(grep -Ec "launch task (.*\()?StepId=$1\.0[ )]" "$log")
    ended=$(grep -c "\[$1\.0\] done with job" "$log")
    ((launched == ended)) || return 1
  done
}
# By itself Slurm waits two minutes before it starts a job again. Earlier, slurmd
# refuses what was queued in the second in which it killed the job (credentials
# count whole seconds), and a step meets the daemon of its predecessor, which
# has the same number.
start_again() { # start_again JOB
  sleep 2
  wait_for 60 steps_have_ended "$1" || failed "job $1: its last step goes on"
  scontrol update jobid="$1" starttime=now
}
expect_requeue() { # expect_requeue NAME JOB RESTARTS: and starts it
  wait_for 120 is_queued_for "$2" "$3"
  [[ $(state "$2") == PENDING && $(field "$2" Restarts) == "$3" ]] ||
    failed "$1: $(state "$2"), restart $(field "$2" Restarts): not queued for" \
      "restart $3"
  start_again "$2"
}

# Slurm refuses for a moment while it is busy with the job.
signals() { [[ -z $(scancel --signal=USR1 "$1" 2>&1) ]]; }
send_usr1() { wait_for 20 signals "$1" || failed "job $1 takes no signal"; }

newest_digest() { # newest_digest NAME: of the model in the newest checkpoint
  local newest
  newest=$(printf '%s\n' "$work/runs/$1"/checkpoints/step-* | sort | tail -n 1)
  [[ -f $newest/replica.h5 ]] && sha256sum <"$newest/replica.h5"
}
expect_same_model() { # expect_same_model NAME NAME
  local digest
  digest=$(newest_digest "$1")
  [[ -n $digest && $digest == "$(newest_digest "$2")" ]] ||
    failed "$1 and $2 learnt different models"
}
