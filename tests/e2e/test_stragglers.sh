#!/usr/bin/env bash
# Stragglers as input, and what Sync-Switch does about them: equal workers are
# left alone, slow workers and slow links are found, in one process and by MPI
# ranks; rows stay right while a worker is removed; episodes cost what they say,
# whether a run is cut or not; phases end on a plateau, with another optimizer.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

# A network of 50 parameters: what is looked at are clocks and rows.
cat >small.ini <<'INI'
[run]
threads = 1
steps = 60
log_every = 1
[model]
family = logistic
[data]
kind = synthetic_images
samples = 512
test_samples = 32
classes = 2
height = 4
width = 4
batch = 4
[optimizer]
lr = 0.01
weight_decay = 0.01
[eval]
every = 0
INI
# shellcheck disable=SC2054  # commas within a key's list
elastic=(--sync.scheme=sync_switch --sync_switch.order=10
  --sync_switch.fractions=0.8,0.2 --sync_switch.policy=elastic)
quick=(--sync_switch.window=2 --sync_switch.consecutive=2)

small() { # small NAME WORKERS KEYS...
  expect_code 0 "$SYNCOPATE" train small.ini --run.name="$1" \
    --run.workers="$2" "${@:3}"
}
small_mpi() { # small_mpi NAME RANKS KEYS...
  # shellcheck disable=SC2046
  expect_code 0 $(ranks "$2") "$SYNCOPATE" train small.ini --run.name="$1" \
    "${@:3}"
}

echo "equal workers with 2% noise stay"
for seed in 1 2 3; do
  small equal-$seed 8 "${elastic[@]}" --run.steps=200 --run.seed=$seed \
    --stragglers.random=uniform --stragglers.random_ms=35
done

echo "slow workers and links are found"
small factor 8 "${elastic[@]}" --run.steps=100 --stragglers.random=uniform \
  --stragglers.random_ms=200 --stragglers.factor=1,1,1,1.6,1,1,1,1
small links 8 "${elastic[@]}" --run.steps=100 --compute.step_s=0.254 \
  --stragglers.random=uniform --stragglers.random_ms=20 \
  --stragglers.episodes=2+5:link:+30ms
grep -q "^switch .*: phase 1 of 2, bsp without workers 2, 5$" \
  runs/links/log.txt || fail "the log does not say who was removed"

echo "equal workers are not mistaken for slow ones, also where links are full"
for workers in 2 3 5 6 8 9 12; do
  for rate in 0.005 0.05; do
    small equal-$workers-$rate $workers --run.steps=100 --data.batch=2 \
      --sync.scheme=sync_switch --sync_switch.order=bsp,asp \
      --sync_switch.fractions=.9,.1 --sync_switch.policy=greedy \
      --network.mbit_s=$rate --compute.step_s=0.1
    ! grep -q "slow$" runs/equal-$workers-$rate/log.txt ||
      fail "$workers equal workers: $(grep "slow$" runs/equal-$workers-$rate/log.txt)"
  done
done

echo "rows while worker 0, or another, is removed"
for slow in 0 3; do
  small rows-$slow 4 "${elastic[@]}" "${quick[@]}" \
    --stragglers.episodes=$slow:compute:x4
  # On a busy machine others may be removed too; what follows from it holds then
  # as well.
  small_mpi mpi-rows-$slow 4 "${elastic[@]}" "${quick[@]}" \
    --sync_switch.min_slowdown=0.7 \
    --stragglers.episodes=all:compute:+20ms,$slow:compute:+150ms
done
small_mpi mpi-factor 4 "${elastic[@]}" "${quick[@]}" \
  --data.batch=64 --stragglers.factor=1,1,3000,1 \
  --stragglers.episodes=all:compute:+20ms --sync_switch.min_slowdown=0.6
grep -qE "^switch .*, bsp without worker.* 2\b" runs/mpi-factor/log.txt ||
  fail "the worker that is slow by a factor is not removed"

echo "episodes in virtual time"
small plain 2 --compute.step_s=1
small compute 2 --stragglers.episodes=1:compute:x3:from=10s:until=25s
small steps 2 --stragglers.episodes=1:compute:+500ms:from=5steps:for=10steps
small again 2 \
  --stragglers.episodes=0:compute:+1s:for=2steps:every=10steps:count=3
small link 2 --stragglers.episodes=1:link:+250ms:from=20steps:for=10steps
small pause 2 --stragglers.episodes=1:pause:+5s:from=10steps:for=2steps \
  --eval.every="11 steps"
small_mpi mpi-pause 2 --stragglers.episodes=1:pause:+1s:from=30steps:for=2steps
# A pause is no hang, but a step that takes as long is.
slow_once=:+9s:from=30steps:for=1steps
small_mpi mpi-long-pause 2 --run.step_timeout_s=2 \
  --stragglers.episodes=1:pause$slow_once
# shellcheck disable=SC2046
expect_code 71 $(ranks 2) "$SYNCOPATE" train small.ini --run.name=mpi-long-step \
  --run.step_timeout_s=2 --stragglers.episodes=1:compute$slow_once

echo "the log's rows of a free-running scheme"
# last_steps RUN: the fewest and the most steps of a worker, as the last row has
# them and as the end table has them.
last_steps() {
  grep "^step " "runs/$1/log.txt" | tail -n 1 |
    sed -nE 's/^step +[0-9]+\/[0-9]+ \(([0-9]+)-([0-9]+)\) \| .*/\1 \2/p'
  sed -nE "s/.*run's steps by worker: .*\(([0-9]+) to ([0-9]+)\)/\1 \2/p" \
    "runs/$1/log.txt" | tail -n 1
}
# 104 steps: in 32 s three workers take 32 each and one 8.
free=(--sync.scheme=asp --run.steps=26)
small free 4 "${free[@]}" --stragglers.factor=1,1,4,1
[[ $(last_steps free) == $'8 32\n8 32' ]] ||
  fail "steps by worker: $(last_steps free)"
grep -qE "^step +13/26 \([45]-1[67]\) \| " runs/free/log.txt ||
  fail "steps by worker in the middle"
small_mpi mpi-free 4 "${free[@]}" --stragglers.factor=1,1,400,1
mapfile -t by_worker < <(last_steps mpi-free)
[[ ${#by_worker[@]} == 2 && ${by_worker[0]} == "${by_worker[1]}" ]] ||
  fail "steps by worker under MPI: ${by_worker[*]}"
! grep -q "^step .*(" runs/plain/log.txt || fail "steps of bsp's workers"

# Worker 1 joins after 20 of worker 0's steps; 40 are left for the two of them.
# A boundary before it joins changes nothing.
for every in 0 4; do
  small late-$every 2 --sync.scheme=asp --run.steps=30 \
    --eval.every="$every steps" --asp.pull=before_step \
    --stragglers.episodes=1:pause:+20s:for=1steps
  [[ $(last_steps late-$every) == $'20 40\n20 40' ]] ||
    fail "steps of a worker that joins late: $(last_steps late-$every)"
done

echo "cut in an episode, and in one of a removed worker"
episodes=any1:compute:x3:for=20s:every=25s:at=random
episodes+=,2:link:+40ms:from=5steps
for stop in 13 39 60; do
  small cut 4 "${elastic[@]}" "${quick[@]}" --network.latency_us=1000 \
    --eval.every="13 steps" --run.stop_at=$stop --stragglers.episodes=$episodes
done
small whole 4 "${elastic[@]}" "${quick[@]}" --network.latency_us=1000 \
  --eval.every="13 steps" \
  --stragglers.episodes=$episodes
resumed cut 13 39
python "$here/compare_runs.py" --virtual runs/whole runs/cut ||
  fail "a run that was cut in an episode differs"

echo "another optimizer behind the switch"
# shellcheck disable=SC2054
after=(--sync.scheme=sync_switch --sync_switch.order=10
  --sync_switch.fractions=0.5,0.5 --checkpoint.every="20 steps"
  --checkpoint.keep=3
  --optimizer.momentum=0.9 --optimizer.nesterov=yes)
for kind in plain adam; do
  own=2:optimizer.lr=0.002,2:optimizer.kind=adam
  [[ $kind == adam ]] ||
    own=2:optimizer.lr=0.002,2:optimizer.momentum=0,2:optimizer.nesterov=no
  small after-$kind 3 "${after[@]}" --sync_switch.overrides=$own
  for stop in 20 40 60; do
    small after-cut-$kind 3 "${after[@]}" --run.stop_at=$stop \
      --sync_switch.overrides=$own
  done
  python "$here/compare_runs.py" --virtual runs/after-$kind \
    runs/after-cut-$kind || fail "$kind: a resumed run differs"
done
small after-keep 3 "${after[@]}" --sync_switch.overrides=2:optimizer.lr=0.002
small after-decay 3 "${after[@]}" \
  --sync_switch.overrides=2:optimizer.weight_decay=0.04
small after-none 3 "${after[@]}" \
  --sync_switch.overrides=1:optimizer.weight_decay=0
grep -q "^switch    step 30: phase 2 of 2, asp$" runs/after-keep/log.txt ||
  fail "the log does not name the phase"
expect_code 65 "$SYNCOPATE" train small.ini --run.workers=3 "${after[@]}" \
  --sync_switch.overrides=2:optimizer.kind=adam \
  --sync_switch.momentum_rule=scaled
grep -q "sync_switch.momentum_rule: scaled" err || fail "scaled without momentum"
# What the phases have counts, whatever the input has for a scheme alone.
adam=("${after[@]:0:3}" --sync_switch.momentum_rule=scaled --optimizer.kind=adam)
expect_code 65 "$SYNCOPATE" validate small.ini --run.workers=3 "${adam[@]}"
grep -q "sync_switch.momentum_rule: scaled" err || fail "scaled with Adam: $(cat err)"
expect_code 0 "$SYNCOPATE" validate small.ini --run.workers=3 "${adam[@]}" \
  "--sync_switch.overrides=1:optimizer.kind=sgd, 2:optimizer.kind=sgd"

echo "a plateau ends the phase"
small plateau 4 --sync.scheme=sync_switch --sync_switch.order=10 \
  --sync_switch.plateau=eval_loss --sync_switch.patience=2 \
  --sync_switch.min_change=10 --eval.every="5 steps"
grep -q "^switch    step 15: phase 2 of 2, asp$" runs/plateau/log.txt ||
  fail "no switch at step 15, after two evaluations of no use"

echo "30 ms on two of eight network cards, as published"
# The network of the published runs on small images: 104 tensors.
expect_code 0 "$SYNCOPATE" train small.ini --run.name=published \
  --run.workers=8 --run.steps=6 --model.family=resnet --model.variant=t2t \
  --model.depth=32 --model.init=t2t --data.channels=3 --data.height=8 \
  --data.width=8 --data.batch=1 --sync.bucket_mb=0.07 --compute.step_s=1.24 \
  --stragglers.episodes=6+7:link:+30ms

echo "what MPI ranks cannot do"
# shellcheck disable=SC2046
expect_code 65 $(ranks 2) "$SYNCOPATE" train small.ini --run.name=none \
  --stragglers.episodes=1:link:+30ms
(($(grep -c "^error: .*stragglers.episodes: 1:link:+30ms: only the virtual links" err) == 1)) ||
  fail "slow links under MPI are not refused in one line"

python - <<'PY' || fail "rows are not as they should be"
import h5py, numpy as np
wrong = []
def check(what, is_so):
    if not is_so:
        wrong.append(what)

def rows(run, name):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return f[name][...]

for seed in (1, 2, 3):
    check(f"equal-{seed}", (rows(f"equal-{seed}", "sync/active_workers") == 8).all())
check("factor", rows("factor", "sync/active_workers")[60] == 7)
check("links", rows("links", "sync/active_workers")[60] == 6)

for run in ("rows-0", "rows-3", "mpi-rows-0", "mpi-rows-3"):
    phase, scheme = rows(run, "sync/phase"), rows(run, "sync/scheme")
    active, lr = rows(run, "sync/active_workers"), rows(run, "train/lr")
    steps = rows(run, "train/worker_steps")
    bsp = steps <= 0.8 * 60 * 4 - 4
    asp = steps > 0.8 * 60 * 4 + 4
    check(run + " phase", (phase[bsp] == 0).all() and (phase[asp] == 1).all())
    check(run + " scheme", (scheme == phase).all())
    is_mpi = run.startswith("mpi")
    removed = bsp & (active < 4)
    # On a busy machine a worker is found later, and another one may be found.
    check(run + " active", active[0] == 4 and removed.any() and
          (is_mpi or (active[bsp & (steps > 60)] == 3).all()))
    # lr_rule linear: the rate of a mini-batch times the workers that are left.
    settled = bsp & (active == np.roll(active, 1))
    check(run + " lr", np.allclose(lr[settled], 0.01 * active[settled])
          and lr[0] == 0.04 and settled.sum() > 10
          and np.allclose(lr[asp][4:], 0.01))
    if not is_mpi:
        took = np.diff(rows(run, "train/virtual_s"))
        # A row is 4 worker steps: three workers go 4/3 of a step in it.
        check(run + " virtual_s", (took[removed[1:]][1:] <= 2.001).all())
    else:
        seconds = np.diff(rows(run, "train/time_s"))
        check(run + " time_s", (seconds >= 0).all())

def clock(run):
    return rows(run, "train/virtual_s")[-1]
check("plain", clock("plain") == 60)
# From 10 s to 25 s five steps of 3 s.
check("compute", clock("compute") == 60 + 5 * 2)
check("steps", clock("steps") == 60 + 10 * 0.5)
check("again", clock("again") == 60 + 3 * 2)
check("pause", clock("pause") == 60 + 2 * 5)
check("mpi-pause", rows("mpi-pause", "train/time_s")[-1] > 2)
# A ring of two workers: the slow one's chunk is waited for in both rounds.
late = clock("link") - 60
check(f"link {late}", 10 * 0.25 - 1e-9 <= late <= 10 * 0.75 + 1e-9)

# A step takes 2.75 times as long, and 400 of them with four episodes of 94 s
# between 721 and 753 s, as published.
slow = clock("published") / 6
took = 4 * 94 + (400 - 4 * 94 / slow) * 1.24
check(f"published {slow / 1.24} {took}",
      abs(slow / 1.24 - 2.75) < 0.15 and 721 < took < 753)

finals = [rows(f"after-{k}", "train/loss")[-1]
          for k in ("plain", "adam", "keep")]
check(f"optimizers {finals}", len(set(finals)) == 3)

# The decay term is of the model as the checkpoint has it: half of the phase's
# weight decay times the sum of squares.
def check_decay(run, step, decay):
    place = f"runs/{run}/checkpoints/step-{step:08}/replica.h5"
    squares = []
    with h5py.File(place) as f:
        def add(name, item):
            if isinstance(item, h5py.Dataset) and "parameters" in name:
                squares.append(float((item[...].astype(np.float64) ** 2).sum()))
        f.visititems(add)
    row = rows(run, "train/weight_decay")[step - 1]  # a row a step
    check(f"weight_decay {run} {step}: {row} {decay / 2 * sum(squares)}",
          np.isclose(row, decay / 2 * sum(squares), rtol=1e-5)
          and sum(squares) > 0)
for run, first, second in (("after-keep", 0.01, 0.01),
                           ("after-decay", 0.01, 0.04),
                           ("after-none", 0, 0.01)):
    check_decay(run, 20, first)
    for step in (40, 60):
        check_decay(run, step, second)
print("\n".join(wrong))
raise SystemExit(1 if wrong else 0)
PY


echo "esync abandons a step for a late \"ready\" under MPI, too"
read -ra two <<<"$(ranks 2)"
expect_code 0 "${two[@]}" "$SYNCOPATE" train small.ini --run.name=abandons --sync.scheme=esync \
  --esync.query=non_blocking --run.steps=60 --stragglers.delay_ms=60 --stragglers.delay_workers=1
python - <<'PY' || fail "no step was abandoned"
import h5py

with h5py.File("runs/abandons/results.h5") as file:
    assert file["sync/abandoned"][()].sum() > 0
PY
finish
