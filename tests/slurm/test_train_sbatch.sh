#!/usr/bin/env bash
# jobs/train.sbatch, submitted for real: two nodes with two ranks each; a job that
# is told to stop at random moments queues again, resumes and learns the same
# model; one that gets nowhere, or that a file STOP ended, stays ended; the time
# limit; a preemption; a node that fails.
# SEED=N repeats the moments of an earlier test; EXHAUSTIVE=1: more of them.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
start_cluster
moments=2
[[ -z ${EXHAUSTIVE:-} ]] || moments=12
RANDOM=${SEED:=$((RANDOM + 1))}
echo "SEED=$SEED"
steps=(--run.steps=300 --run.log_every=5 --checkpoint.every=50)

# Meets its limit while the others run: Slurm looks every 30 s, signals 30 s
# before the end of the minute, so the first part trains for 1 to 30 s.
limited=$(submit limited --time=1 --signal=USR1@40 --nodes=1 jobs/train.sbatch \
  --run.steps=1000000 --run.log_every=100 --checkpoint.every=0)

# The same without a signal: the program asks Slurm for the time that is left.
if [[ -n ${EXHAUSTIVE:-} ]]; then
  unsignalled=$(submit unsignalled --time=1 --signal=CONT@1 --nodes=1 \
    jobs/train.sbatch --run.steps=1000000 --run.log_every=100 \
    --checkpoint.every=0)
fi

# Four ranks on two nodes, to the end. What follows is compared with it.
before=$failures
job=$(submit straight jobs/train.sbatch "${steps[@]}")
expect_end straight "$job" COMPLETED 0
[[ $(field "$job" NumNodes) == 2 ]] || failed "straight: not on two nodes"
expect_shown straight '4 MPI ranks'
for file in results.h5 checkpoints/step-00000300; do
  "$SYNCOPATE" inspect "$work/runs/straight/$file" >"$work/inspect" 2>&1 ||
    failed "straight: $file: $(<"$work/inspect")"
done
conclude straight "$before" "two nodes with two ranks each"

# Told to stop, as before a time limit, at any moment of each start. With
# checkpoint.resume = none it refuses the runs of others, not its own.
before=$failures
job=$(submit stopped jobs/train.sbatch "${steps[@]}" --checkpoint.resume=none)
for ((restart = 0; restart < moments; restart++)); do
  wait_for 60 is_training stopped "$restart" || failed "stopped: does not train"
  delay=$(printf '0.%03d' $((RANDOM % 1000)))
  sleep "$delay"
  send_usr1 "$job"
  # The last rows may have been there already when the signal came.
  wait_for 90 is_queued_for "$job" $((restart + 1))
  [[ $(state "$job") == COMPLETED ]] && break
  expect_requeue stopped "$job" $((restart + 1))
done
((restart > 0)) || failed "stopped: was never stopped"
expect_end stopped "$job" COMPLETED 0
expect_same_model stopped straight
conclude stopped "$before" "stopped $restart times, resumed, same model"

# Stopped before any checkpoint can be newer than the last: queued again three
# times, then no more.
before=$failures
allowed=3 # the default
unset RESTARTS_WITHOUT_PROGRESS
[[ -n ${EXHAUSTIVE:-} ]] || {
  export RESTARTS_WITHOUT_PROGRESS=1 # three take longer and show no more
  allowed=1
  grep -q 'RESTARTS_WITHOUT_PROGRESS:-3}' jobs/job.sh || failed "the default is not three"
}
cat >"$work/stuck" <<'STUCK'
#!/usr/bin/env bash
# The program, but its training stops before it begins.
[[ $1 == train ]] || exec "$REAL" "$@"
exit 75
STUCK
chmod +x "$work/stuck"
export REAL=$SYNCOPATE
job=$(SYNCOPATE=$work/stuck submit stuck --nodes=1 jobs/train.sbatch \
  "${steps[@]}")
for ((restart = 1; restart <= allowed; restart++)); do
  expect_requeue stuck "$job" "$restart"
done
expect_end stuck "$job" FAILED 75
expect_shown stuck 'no checkpoint beyond step 0 after'
unset RESTARTS_WITHOUT_PROGRESS
conclude stuck "$before" "restarts without progress come to an end"

# Stopped by hand.
before=$failures
job=$(submit by_hand --nodes=1 jobs/train.sbatch --run.steps=1000000 \
  --run.log_every=10 --checkpoint.every=0)
wait_for 60 is_training by_hand 0 || failed "by_hand: does not train"
touch "$work/runs/by_hand/STOP"
expect_end by_hand "$job" FAILED 75
[[ $(field "$job" Restarts) == 0 ]] || failed "by_hand: was queued again"
expect_shown by_hand '^stopped by a file STOP at step [1-9]'
conclude by_hand "$before" "a file STOP ends the job"

# A job of another partition takes its nodes: Slurm warns with SIGTERM. Steps that
# take 6 s at least are not over before that.
before=$failures
job=$(submit preempted --partition=low jobs/train.sbatch "${steps[@]:0:2}" \
  --checkpoint.every=0 --stragglers.delay_ms=20 --stragglers.delay_workers=0)
wait_for 60 is_training preempted 0 || failed "preempted: does not train"
urgent=$(sbatch --parsable --partition=urgent --nodes=2 --exclusive \
  --output=/dev/null --wrap true)
wait_for 60 is_queued_for "$job" 1
wait_for 60 is_over "$urgent" || failed "preempted: its nodes were not given up"
expect_requeue preempted "$job" 1
expect_end preempted "$job" COMPLETED 0
expect_shown preempted '^resumed from .*step-00000[0-9]*'
expect_same_model preempted straight
conclude preempted "$before" "a preemption: saved in time, queued again, same model"

# A node fails: Slurm queues the job again, and it resumes on another.
before=$failures
job=$(submit node_fails --nodelist=n2 --nodes=2 jobs/train.sbatch "${steps[@]}")
wait_for 60 is_training node_fails 0 || failed "node_fails: does not train"
wait_for 60 shows node_fails '^checkpoint committed' ||
  failed "node_fails: no checkpoint"
scontrol update nodename=n2 state=down reason=test
# Its slurmd lives, and Slurm takes the node back at once: started on it again,
# the job was once left without it ("allocated node count (2 != 1)").
scontrol update jobid="$job" reqnodelist= excnodelist=n2
expect_requeue node_fails "$job" 1
expect_end node_fails "$job" COMPLETED 0
expect_shown node_fails '^resumed from .*step-00000[0-9]*'
! shows node_fails ' restart 1 on [^,]*2' || failed "node_fails: on n2 again"
expect_same_model node_fails straight
conclude node_fails "$before" "a failed node: resumed on others, same model"

# The one that was submitted first; by now Slurm may have started it again.
before=$failures
wait_for 120 shows limited '^code 75, checkpoint of step [1-9][0-9]*: queueing' ||
  failed "limited: not queued again"
[[ $(state "$limited") != PENDING ]] || start_again "$limited"
wait_for 150 shows limited '^resumed from ' || failed "limited: does not resume"
touch "$work/runs/limited/STOP"
expect_end limited "$limited" FAILED 75
conclude limited "$before" "a limit of a minute: saved in time, queued again"
if [[ -n ${EXHAUSTIVE:-} ]]; then
  before=$failures
  wait_for 120 is_queued_for "$unsignalled" 1
  scancel "$unsignalled"
  expect_shown unsignalled '^stopped by time limit: '
  expect_shown unsignalled '^code 75, checkpoint of step [1-9][0-9]*: queueing'
  conclude unsignalled "$before" "a limit of a minute, no signal: saved in time"
fi
finish
