#!/usr/bin/env bash
# What a batch job is asked and asks: STOP and SAVE files, the time that Slurm
# has left, one owner of a run directory, and `syncopate status`.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
unset SLURM_JOB_ID SLURM_JOB_END_TIME SLURM_RESTART_COUNT
# Seconds on a fast machine too: requests are looked for twice a second.
total=900
long=(--run.steps="$total" --run.log_every=1 --eval.every=0 --checkpoint.every=0
  --schedule.horizon="$total")

# fact NAME KEYS...: what status says.
fact() {
  local name=$1
  shift
  "$SYNCOPATE" status tiny.ini "$@" |
    awk -v name="$name" '$1 == name { sub(/^[^ ]+ +/, ""); print }'
}
is() { # is NAME VALUE KEYS...
  local name=$1 value=$2 found
  shift 2
  found=$(fact "$name" "$@")
  [[ $found == "$value" ]] || fail "status $*: $name is '$found', not '$value'"
}
await() { # await COMMAND...: until it succeeds, 30 s at most
  local until=$((SECONDS + 30))
  until "$@"; do
    ((SECONDS < until)) || { fail "in vain: $*"; return; }
    sleep 0.05
  done
}
# begin NAME COMMAND...: in the background, until its first rows are logged.
begin() {
  name=$1
  shift
  "$@" --run.name="$name" >"$name.out" 2>"$name.err" &
  pid=$!
  await grep -qs "^step .* 3/$total" "$name.out"
}
ends_with() { # ends_with CODE: the one in the background
  local code=0
  wait "$pid" || code=$?
  ((code == $1)) || { fail "$name: exit $code, expected $1"; tail -n 5 "$name".*; }
}
gone() { [[ ! -e $1 ]]; }

# --- STOP ---------------------------------------------------------------------
expect_code 66 "$SYNCOPATE" status nowhere.ini
expect_code 65 "$SYNCOPATE" status tiny.ini --run.stpes=1
is step 0 --run.name=stopped
is owner none --run.name=stopped
[[ -e runs ]] && fail "status made a folder"
begin stopped "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2
is owner "process $pid on $(hostname)" --run.name=stopped
is ended none --run.name=stopped
touch runs/stopped/STOP
ends_with 75
grep -q "^STOP: checkpoint written; file removed" runs/stopped/log.txt ||
  fail "the log does not say STOP: $(tail -n 3 runs/stopped/log.txt)"
[[ -e runs/stopped/STOP ]] && fail "STOP is still there"
is directory runs/stopped --run.name=stopped
is owner none --run.name=stopped
is ended stopped --run.name=stopped
is stopped_by "STOP file" --run.name=stopped
is request none --run.name=stopped
step=$(fact step --run.name=stopped)
((step >= 3 && step < total)) || fail "stopped at step $step"

# One that is there before the start is honoured, once.
touch runs/stopped/STOP
is request STOP --run.name=stopped
expect_code 75 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=stopped
is stopped_by "STOP file" --run.name=stopped
expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=stopped
is ended finished --run.name=stopped
is stopped_by none --run.name=stopped
is step $total --run.name=stopped
expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=whole
python "$here/compare_runs.py" runs/whole runs/stopped ||
  fail "a run that was stopped and resumed differs"
touch runs/whole/STOP
expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.workers=2 --run.name=whole
[[ -e runs/whole/STOP ]] && fail "a finished run leaves STOP behind"

# A signal does not use up STOP: what a requeue starts is stopped by it.
begin both "$SYNCOPATE" train tiny.ini "${long[@]}"
kill -USR1 "$pid"
touch runs/both/STOP
ends_with 75
[[ $(fact stopped_by --run.name=both) == "STOP file" || -e runs/both/STOP ]] ||
  fail "STOP is lost to a signal"

# Three ranks, and in the middle of an evaluation.
# shellcheck disable=SC2046
begin mpi $(ranks 3) "$SYNCOPATE" train tiny.ini "${long[@]}"
touch runs/mpi/STOP
ends_with 75
is stopped_by "STOP file" --run.name=mpi
(($(fact step --run.name=mpi) >= 3)) || fail "three ranks left no checkpoint"
begin evaluating "$SYNCOPATE" train tiny.ini --run.log_every=1 --eval.every=1 \
  --eval.batch=1 --schedule.horizon=$total --checkpoint.every=0 --run.steps=$total
touch runs/evaluating/STOP
ends_with 75

# --- SAVE ---------------------------------------------------------------------
# asks_to_save NAME KEYS...: before the start and in the middle. A run that goes
# on equals one that starts again from what was saved.
asks_to_save() {
  name=$1
  local saved keys
  shift
  keys=(--run.steps=1500 --schedule.horizon=1500 --run.log_every=20 --eval.every=0
    --checkpoint.every=0 --run.workers=2 "$@")
  mkdir -p "runs/$name"
  touch "runs/$name/SAVE"
  "$SYNCOPATE" train tiny.ini "${keys[@]}" --run.name="$name" >"$name.out" 2>"$name.err" &
  pid=$!
  await grep -qs "^step .* 40/1500" "$name.out"
  touch "runs/$name/SAVE"
  await gone "runs/$name/SAVE"
  cp -r "runs/$name" "runs/$name-again"
  ends_with 0
  saved=$(grep -c "^SAVE: checkpoint written; file removed" "runs/$name/log.txt")
  ((saved == 2)) || fail "$name: saved $saved times"
  expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}" --run.name="$name-again"
  grep -q "^resumed from" out || fail "$name: the copy was not of the middle"
  python "$here/compare_runs.py" "runs/$name" "runs/$name-again" ||
    fail "$name: a run that went on differs from one that resumed"
}
# Where workers step together, it equals one that was never asked, too.
asks_to_save bsp
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 \
  --run.steps=1500 --schedule.horizon=1500 --run.log_every=20 --eval.every=0 \
  --checkpoint.every=0 --run.name=bsp-whole
python "$here/compare_runs.py" runs/bsp runs/bsp-whole ||
  fail "a run that was asked to save differs"
schemes=(local_sgd asp)
[[ ${EXHAUSTIVE:-} == 1 ]] &&
  mapfile -t schemes < <(all_schemes | grep -vx bsp)
for scheme in "${schemes[@]}"; do
  # shellcheck disable=SC2046
  asks_to_save "$scheme" --sync.scheme="$scheme" $(scheme_keys "$scheme")
done

# --- the time that Slurm has left ---------------------------------------------
mkdir fake
squeue() { # squeue SCRIPT: what the fake one does
  printf '#!/bin/sh\necho "$*" >>%s/asked\n%s\n' "$scratch" "$1" >fake/squeue
  chmod +x fake/squeue
  rm -f asked
}
in_job() { PATH=$scratch/fake:$PATH SLURM_JOB_ID=4711 "$@"; }
squeue 'echo 0:08'
expect_code 75 in_job "$SYNCOPATE" train tiny.ini --run.steps=100000 \
  --run.workers=3 --run.name=limit
grep -q "^limit  *Slurm ends this job in 8.0 s (squeue)" out || fail "no line of the limit"
[[ $(cat asked) == "-h -j 4711 -o %L" ]] || fail "asked: $(cat asked)"
is stopped_by "time limit" --run.name=limit
# Ranks sleep for most of each step.
# shellcheck disable=SC2046
expect_code 75 in_job $(ranks 2) "$SYNCOPATE" train tiny.ini --run.steps=100000 \
  --run.name=limit-mpi --stragglers.delay_ms=200 --stragglers.delay_workers=0,1
(($(wc -l <asked) == 2)) || fail "asked once a rank: $(cat asked)"
steps=0
for script in 'echo UNLIMITED' 'echo INVALID' 'exit 1' 'kill -9 $$'; do
  squeue "$script"
  expect_code 0 in_job "$SYNCOPATE" train tiny.ini --run.stop_at=$((++steps)) \
    --run.name=no-limit
  grep -q "^limit " out || fail "'$script': the log says nothing"
done
squeue 'sleep 60'
SECONDS=0
expect_code 0 in_job "$SYNCOPATE" train tiny.ini --run.stop_at=2 --run.name=slow-squeue
((SECONDS < 25)) || fail "a squeue that hangs held the start for $SECONDS s"
grep -q "no answer in 5 s" out || fail "no word of a squeue that hangs"

# --- one owner ----------------------------------------------------------------
refused() { # refused OWNER: a second start, within a second
  local begun=${EPOCHREALTIME/./} took
  expect_code 73 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.name="$name"
  took=$(((${EPOCHREALTIME/./} - begun) / 1000))
  grep -qF "in use by $1" err || fail "the owner is not named: $(cat err)"
  echo "refused after $took ms"
  ((took < 1000 || $(cut -d. -f1 /proc/loadavg) >= $(nproc))) || fail "refused after $took ms"
}
begin owned env SLURM_JOB_ID=88 PATH="$scratch/fake:$PATH" \
  "$SYNCOPATE" train tiny.ini "${long[@]}" --data.accumulate=8
refused "job 88, process $pid on $(hostname)"
kill -9 "$pid"
ends_with 137
is owner none --run.name=owned
is ended none --run.name=owned
# After a dead rank (code 71) a job requeues itself, too.
echo "job 88 requeued step 0" >runs/owned/restarts.txt
is ended "requeued as job 88" --run.name=owned
echo "job 88 restart 1 step 0" >>runs/owned/restarts.txt
is ended none --run.name=owned
expect_code 0 "$SYNCOPATE" train tiny.ini "${long[@]}" --run.name=owned --run.stop_at=2

# The same on a file system without locks, which strace makes of this one.
without_locks() { strace -f -qq -o /dev/null -e inject=flock:error=ENOLCK "$@"; }
if without_locks true 2>/dev/null; then
  without=(without_locks "$SYNCOPATE" train tiny.ini --run.name=nolock --run.steps=300)
  owner=runs/nolock/lock.owner
  mkdir -p runs/nolock
  echo "process 4711 on elsewhere" >$owner
  expect_code 73 "${without[@]}"
  grep -q "in use by process 4711 on elsewhere.*remove $owner" err ||
    fail "no mend named: $(cat err)"
  touch -d "-400 seconds" $owner # silent for too long
  expect_code 0 "${without[@]}" --run.stop_at=2
  gone $owner || fail "the owner's file is left behind"
  sleep 0 & # a process that is gone
  wait $!
  echo "process $! on $(hostname)" >$owner
  expect_code 0 "${without[@]}" --run.stop_at=3
  echo "process $$ on $(hostname)" >$owner # one that is there
  expect_code 73 "${without[@]}"
  echo "job 9, process 1 on elsewhere" >$owner # its job, but started again
  expect_code 0 env SLURM_JOB_ID=9 SLURM_RESTART_COUNT=1 PATH="$scratch/fake:$PATH" \
    strace -f -qq -o /dev/null -e inject=flock:error=ENOLCK \
    "$SYNCOPATE" train tiny.ini --run.name=nolock --run.steps=300 --run.stop_at=4
else
  echo "not tried: strace cannot trace here"
fi
finish
