#!/usr/bin/env bash
# Lengths that do not fit a run, or that it must not change; what rows and the end
# of the results say where workers take steps of their own, or stop between rows.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

cat >base.ini <<'INI'
[run]
steps = 12
log_every = 1
threads = 1
[model]
family = logistic
[data]
kind = synthetic_images
batch = 4
samples = 64
test_samples = 32
classes = 4
height = 4
width = 4
[optimizer]
lr = 0.1
[eval]
every = 5 steps
batch = 16
[checkpoint]
every = 0
INI
train() { # train CODE NAME WORKERS KEYS...
  expect_code "$1" "$SYNCOPATE" train base.ini --run.name="$2" --run.workers="$3" "${@:4}"
}
refused() { grep -q -- "$1" err || fail "not '$1': $(cat err)"; }

# --- lengths --------------------------------------------------------------------
train 65 warm 2 --schedule.kind=cosine --schedule.warmup=100
refused 'schedule.warmup: is 100 steps, longer than run.steps = 12 steps'
train 65 warm 2 --schedule.kind=cosine --schedule.warmup='100 epochs'
refused "schedule.warmup: is 100 epochs, longer than the schedule's 12 steps, with 8 steps per epoch"
train 0 warm 2 --schedule.kind=cosine --schedule.warmup='1 epochs'
grep -q 'ends within' out && fail "a warm-up of 8 steps: $(cat out)"
# Without a horizon, a short run of a long recipe is valid, and says what it is.
for kind in constant inverse_time "multistep --schedule.milestones=5"; do
  # shellcheck disable=SC2086
  train 0 "short-${kind%% *}" 2 --schedule.kind=$kind --schedule.warmup=100
  grep -q '^note  *the run ends within schedule.warmup, of 100 steps$' out || fail "$kind: $(cat out)"
done

# A cycle begins after the warm-up.
sed '/^lr = /d' base.ini >cycle.ini # one_cycle has rates of its own
cat >>cycle.ini <<'INI'
[schedule]
kind = one_cycle
low_lr = 0.01
high_lr = 0.1
INI
cycle() { # cycle CODE KEYS...: under train and under validate
  local command
  for command in train validate; do
    expect_code "$1" "$SYNCOPATE" $command cycle.ini --run.workers=2 --run.name=cycle "${@:2}"
  done
}
cycle 65 --schedule.cycle='10 epochs'
refused "schedule.cycle: is 10 epochs, which with schedule.warmup = 0 is longer than the schedule's 12 steps, with 8 steps per epoch"
cycle 65 --schedule.warmup=4 --schedule.cycle=9
refused "schedule.cycle: is 9 steps, which with schedule.warmup = 4 steps is longer than the schedule's 12 steps"
cycle 0 --schedule.warmup=4 --schedule.cycle='1 epoch'
# Four workers go on for 5.25 steps instead of three for 7, rounded to 5.
whole=(--run.name=whole --run.steps=7 --schedule.cycle=7)
expect_code 0 "$SYNCOPATE" train cycle.ini "${whole[@]}" --run.workers=3 --run.stop_at=4
expect_code 0 "$SYNCOPATE" train cycle.ini "${whole[@]}" --run.workers=4

# With four times the workers, milestones at steps 6 and 7 are 1.5 and 1.75.
train 0 resized 2 --run.stop_at=4 --schedule.kind=multistep --schedule.milestones=6,7
train 0 resized 8

# What the first part did depends on its length.
plateau=(--sync.scheme=sync_switch --sync_switch.order=10 --sync_switch.plateau=eval_loss
  --sync_switch.patience=100)
train 0 plateau 4 "${plateau[@]}" --run.steps=10
train 65 plateau 4 "${plateau[@]}" --run.steps=20
refused 'run.steps: was 10, now 20: .* sync_switch.plateau'
train 0 rounds 4 --sync.scheme=esync --run.steps=10
train 65 rounds 4 --sync.scheme=esync --run.steps=20
refused 'run.steps: was 10, now 20: .* esync ends a round after the last step'

# --- rows -----------------------------------------------------------------------
# The first worker takes a tenth of the steps: neither rates nor times are its own.
column() { python -c 'import h5py, sys
print(*h5py.File(f"runs/{sys.argv[1]}/results.h5")["train/" + sys.argv[2]][()])' "$@"; }
for world in process ranks; do
  launch=() slow=(--run.workers=4 "--stragglers.factor=10,1,1,1")
  if [[ $world == ranks ]]; then
    read -ra launch <<<"$(ranks 2)"
    slow=(--stragglers.delay_ms=1000 --stragglers.delay_workers=0)
  fi
  expect_code 0 "${launch[@]}" "$SYNCOPATE" train base.ini --run.name="asp-$world" \
    --sync.scheme=asp "${slow[@]}" --schedule.warmup='10 steps' --eval.every=0
  python - "$(column "asp-$world" lr)" "$(column "asp-$world" time_s)" <<'PY' ||
import sys
rates, times = ([float(word) for word in text.split()] for text in sys.argv[1:])
# The last step of row k is the last of N before N k: the schedule's at k - 1/N.
assert all(abs(rate - min(0.1, 0.01 * (k + 1))) < 0.0051 and rate > 0.01 * k
           for k, rate in enumerate(rates[:9])), rates
assert all(a < b for a, b in zip(times, times[1:])), times
assert times[8] < 0.83, times  # long before the slow worker's second step
PY
    fail "asp, $world: rates $(column "asp-$world" lr), times $(column "asp-$world" time_s)"
done
# Where none may be ahead, each has done as many steps as the row says.
train 0 ssp 3 --sync.scheme=ssp --ssp.bound=0 --stragglers.factor=4,1,1 --eval.every=0
for step in 1 11 12; do
  grep -qE "^step +$step/12 \($step-$step\)" out || fail "step $step: $(grep '^step' out)"
done

# A row says what its last step did, whether or not a boundary follows it.
phases() { python -c 'import h5py, sys
with h5py.File(f"runs/{sys.argv[1]}/results.h5") as file:
    print(*file["sync/phase"][()].astype(int), *file["sync/scheme"][()].astype(int))' "$1"; }
# shellcheck disable=SC2054  # commas within a key's list
switched=(--run.steps=20 --sync.scheme=sync_switch --sync_switch.order=bsp,asp,bsp
  --sync_switch.fractions=0.3,0.3,0.4)
train 0 phases-5 2 "${switched[@]}" --eval.every=5
train 0 phases-6 2 "${switched[@]}" --eval.every=6
once='0 0 0 0 0 0 1 1 1 1 1 1 2 2 2 2 2 2 2 2'
[[ $(phases phases-6) == "$once $once" ]] || fail "phases: $(phases phases-6)"
[[ $(phases phases-5) == "$once $once" ]] || fail "phases: $(phases phases-5)"

# What others wait for the files of rank 0 at a boundary is no communication.
cat >slow.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int fsync(int fd) {
  const char *rank = getenv("PMI_RANK");
  if (rank != NULL && strcmp(rank, "0") == 0) usleep(500000);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
C
if "${CC:-cc}" -shared -fPIC -o slow.so slow.c -ldl && "$MPIEXEC" --version | grep -q HYDRA; then
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) env LD_PRELOAD="$PWD/slow.so" "$SYNCOPATE" train base.ini \
    --run.name=slow-files --eval.every=0 --checkpoint.every=4
  python - <<'PY' || fail "waiting for files counts as communication"
import h5py
with h5py.File("runs/slow-files/results.h5") as file:
    exposed = file["comm/exposed_s"][()]
# At each of three checkpoints, the other rank would wait for half a second.
assert exposed.sum(axis=0).max() < 0.6, exposed
PY
fi

# After a kill, the clock goes on from the checkpoint, as the rows do.
late=(--run.steps=60 --run.log_every=5 --eval.every=5 --checkpoint.every=20
  --checkpoint.best=loss --model.family=resnet --model.depth=8 --data.height=16
  --data.width=16 --data.batch=32 --data.samples=1024 --optimizer.lr=0.001)
train 137 killed 2 "${late[@]}" --faults.kind=kill --faults.step=39
cp runs/killed/results.h5 killed.h5
train 0 killed 2 "${late[@]}"
python - "$(grep '^resumed' out)" "$(grep -E '^step +25/60' out)" <<'PY' ||
import re, sys
import h5py
step = int(re.search(r"step (\d+)\)", sys.argv[1])[1])
with h5py.File("killed.h5") as file:
    ms = file["provenance"].attrs["training_ms"]
with h5py.File("runs/killed/results.h5") as file:
    steps, times = file["train/step"][()], file["train/time_s"][()]
saved, row = (times[list(steps).index(wanted)] for wanted in (step, step + 5))
rate = float(re.search(r"(\d+) samples/s", sys.argv[2])[1])
took = 5 * 2 * 32 / rate
print(f"results at {1e-3 * ms} s, checkpoint at {saved}, then {row - saved} in {took}")
assert step == 20 and abs(row - saved - took) < 0.05 * took + 2e-3
PY
  fail "time that a kill has lost counts"

# --- the end --------------------------------------------------------------------
train 0 between 3 --run.stop_at=9 --run.log_every=1000
expect_code 0 "$SYNCOPATE" inspect runs/between
grep -q '^  stopped at step 9: ' out || fail "another end: $(sed -n 2p out)"
finish
