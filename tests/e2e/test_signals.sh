#!/usr/bin/env bash
# SIGTERM and SIGUSR1: a checkpoint at one agreed step and exit 75; SIGINT:
# 130; a time limit: 75. In one process and through mpiexec. The resumed run
# equals one that was never stopped.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
long=(--run.steps=1500 --run.log_every=1 --eval.every=0 --checkpoint.every=0
  --schedule.horizon=1500)

# stop_with SIGNAL CODES NAME COMMAND...: signals one process of the run once its
# first rows are logged: under mpiexec the last of the ranks alone or, with
# whom=launcher, mpiexec. Expects one of the codes.
whom=rank
stop_with() {
  local signal=$1 expected=$2 name=$3 code=0 pid target
  shift 3
  "$@" --run.name="$name" >"$name.out" 2>"$name.err" &
  pid=$!
  for _ in $(seq 1200); do
    grep -q "^step .* 3/1500" "$name.out" && break
    sleep 0.05
  done
  target=$pid
  [[ $whom == launcher ]] || target=$(pgrep -f "run.name=$name\$" | tail -n 1)
  kill "-$signal" "$target"
  wait "$pid" || code=$?
  [[ " $expected " == *" $code "* ]] || fail "$name: exit $code, expected $expected"
  [[ $(ls "runs/$name/checkpoints") == step-* ]] || fail "$name: no checkpoint"
  local steps
  steps=$(find "runs/$name/checkpoints" -name manifest.json | wc -l)
  ((steps == 1)) || fail "$name: $steps checkpoints, one expected"
}

stop_with TERM 75 term "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2
stop_with USR1 75 usr1 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2
stop_with INT 130 int "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2
stop_with HUP 75 hup "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2
# As nohup does: it goes on.
(
  trap '' HUP
  exec "$SYNCOPATE" train tiny.ini --run.steps=100 --run.log_every=1 \
    --schedule.horizon=100 --run.name=nohup >nohup.out 2>nohup.err
) &
nohup_pid=$!
for _ in $(seq 1200); do
  grep -q "^step .* 3/100" nohup.out && break
  sleep 0.05
done
kill -HUP "$nohup_pid"
wait "$nohup_pid" || fail "SIGHUP ended a run that ignores it: $?"
# shellcheck disable=SC2046
stop_with TERM 75 mpi-term $(ranks 2) "$SYNCOPATE" train tiny.ini "${long[@]}"
# shellcheck disable=SC2046
stop_with USR1 75 mpi-usr1 $(ranks 3) "$SYNCOPATE" train tiny.ini "${long[@]}"
# shellcheck disable=SC2046
stop_with INT 130 mpi-int $(ranks 2) "$SYNCOPATE" train tiny.ini "${long[@]}"
# A signal that comes while MPI still starts, as rank 1 is late, is no other.
cat >late.sh <<'END'
sleep 2
exec "$@"
END
for signal in USR1 HUP TERM; do
  early=("$SYNCOPATE" train tiny.ini "${long[@]}" --run.name="early-$signal")
  code=0
  "$MPIEXEC" -bind-to none -n 1 "${early[@]}" : -n 1 bash late.sh "${early[@]}" \
    >early.out 2>early.err &
  pid=$!
  sleep 1
  pkill -"$signal" -f "^$SYNCOPATE .*run.name=early-$signal\$" || fail "early $signal: nobody is there"
  wait "$pid" || code=$?
  ((code == 75)) || fail "early $signal: exit $code: $(tail -n 2 early.out early.err)"
  [[ $(ls "runs/early-$signal/checkpoints") == step-* ]] || fail "early $signal: no checkpoint"
done

# The end of a Slurm job, which rank 0 knows, while rank 1 takes much longer for a
# step that nobody waits for.
end=$(($(date +%s) + 16))
# shellcheck disable=SC2046
SLURM_JOB_ID=99 SLURM_JOB_END_TIME=$end expect_code 75 $(ranks 2) "$SYNCOPATE" train tiny.ini \
  --run.name=job_end --run.steps=100000000 --schedule.horizon=100000000 --run.log_every=1000000 \
  --eval.every=0 --checkpoint.every=0 --sync.scheme=asp --stragglers.delay_ms=3000 \
  --stragglers.delay_workers=1
(($(date +%s) < end)) || fail "the run ended $(($(date +%s) - end)) s after its job"
grep -q 'may be no time for a checkpoint' err out && fail "the end of the job came too soon"

# MPICH's launcher passes signals on and then usually returns 0 (jobs/README.md).
if "$MPIEXEC" --version 2>&1 | grep -q HYDRA; then
  for signal in INT TERM; do
    # shellcheck disable=SC2046
    whom=launcher stop_with "$signal" "0 75 130" "launcher-$signal" $(ranks 2) \
      "$SYNCOPATE" train tiny.ini "${long[@]}"
    tail -n 1 "launcher-$signal.out" | grep -q '^stopped: run the same command' ||
      fail "$signal to the launcher: $(tail -n 1 "launcher-$signal.out")"
  done
fi
# A long round of local steps is left within 64 steps, not at its end.
# shellcheck disable=SC2046,SC2054
stop_with TERM 75 rounds $(ranks 2) "$SYNCOPATE" train tiny.ini "${long[@]}" \
  --sync.scheme=local_sgd --local_sgd.steps=700 \
  --stragglers.delay_ms=5 --stragglers.delay_workers=0,1
left_at=$(basename runs/rounds/checkpoints/step-*)
((10#${left_at#step-} < 300)) || fail "the round was left at $left_at"

expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=term
expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=whole
grep -q '^resumed from' runs/term/log.txt || fail "not resumed"
python "$here/compare_runs.py" runs/whole runs/term || fail "the resumed run differs"

sed 's/^threads = 1/threads = 1\ntime_limit_s = 1/' tiny.ini >limit.ini
expect_code 75 "$SYNCOPATE" train limit.ini --run.steps=100000 --run.name=limit

# One worker's row is shown when its step is done, not after the next.
expect_code 137 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=1 \
  --run.name=killed --faults.kind=kill --faults.stage=step --faults.step=5
[[ $(grep '^step' out | tail -n 1) == step*' 5/1500 '* ]] ||
  fail "rows came late: $(grep '^step' out | tail -n 1)"
finish
