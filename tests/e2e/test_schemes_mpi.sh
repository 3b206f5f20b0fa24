#!/usr/bin/env bash
# Schemes of each kind (all under EXHAUSTIVE=1) on MPI ranks: those whose workers
# wait for each other end in the same bits as in one process; the others take every
# step once, learn, stop at a signal and go on, and what a run recorded is replayed
# in one process to the same bits. Stragglers sleep.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
sed -i "s/^depth = 8/&\nwidths = 8, 8, 16/" tiny.ini
# A rate that three workers' single gradients with one momentum still bear.
common=(--checkpoint.every=0 --optimizer.lr=0.02)

in_process() { # in_process N NAME KEYS...
  expect_code 0 "$SYNCOPATE" train tiny.ini "${common[@]}" --run.workers="$1" \
    --run.name="$2" "${@:3}"
}
on_ranks() { # on_ranks N NAME KEYS...
  # shellcheck disable=SC2046
  expect_code 0 $(ranks "$1") "$SYNCOPATE" train tiny.ini "${common[@]}" \
    --run.name="$2" "${@:3}"
}

is_asynchronous() {
  case $1 in asp | ssp | esync | sync_switch) return 0 ;; esac
  return 1
}

# worlds_agree N NAME KEYS...: the same on ranks and in one process, which is
# compared further below.
worlds=()
worlds_agree() {
  local n=$1 name=$2-$1
  shift 2
  on_ranks "$n" "mpi-$name" "$@"
  in_process "$n" "in-$name" "$@"
  worlds+=("runs/in-$name" "runs/mpi-$name")
}

free=()
for scheme in $(schemes_of_each_kind); do
  # shellcheck disable=SC2207
  keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
  if is_asynchronous "$scheme"; then
    free+=("$scheme")
  else
    worlds_agree 3 "$scheme" "${keys[@]}"
  fi
done
((${#free[@]} == $(of_each_kind asp ssp esync sync_switch | wc -l))) ||
  fail "${#free[@]} asynchronous schemes"
others=("2 choco" "4 ds_sync")
[[ -z ${EXHAUSTIVE:-} ]] || others+=("4 choco" "2 ds_sync")
for other in "${others[@]}"; do
  read -r n scheme <<<"$other"
  # shellcheck disable=SC2046
  worlds_agree "$n" "$scheme" --sync.scheme="$scheme" $(scheme_keys "$scheme")
done
# Phases without asynchronous ones; and unlike batches.
worlds_agree 3 switch --sync.scheme=sync_switch \
  --sync_switch.order=bsp,choco,local_sgd --sync_switch.fractions=0.4,0.3,0.3 \
  --topology.kind=ring --compress.kind=sign
worlds_agree 3 batches --sync.scheme=bsp --data.batch_by_worker=4,8,12
python "$here/compare_runs.py" --replica-only "${worlds[@]}" ||
  fail "the worlds differ"
python "$here/compare_states.py" --pairs "${worlds[@]}" ||
  fail "the worlds' workers differ"

# The library's own sums, of ranges of unlike sizes: those of the ring, but for
# the order of summation.
# shellcheck disable=SC2054  # commas within a key's list
own=(--sync.scheme=local_sgd --local_sgd.steps=1 --sync.bucket_mb=0.0024
  --model.depth=32 --model.widths=16,32,64 --run.steps=4 --schedule.warmup=2
  --run.step_timeout_s=20)
on_ranks 3 own-ring "${own[@]}"
on_ranks 3 own-native "${own[@]}" --sync.collective=native
python - <<'PY' || fail "other sums by the library than by the ring"
import h5py, numpy as np, sys
def losses(run):
    with h5py.File(f"runs/own-{run}/results.h5") as f:
        return np.concatenate([f["train/loss"][...], f["eval/loss"][...]])
ring, native = losses("ring"), losses("native")
sys.exit(not np.allclose(native, ring, rtol=0.01))
PY

# Stopped by run.stop_at and by a signal to one rank alone; gone on from there.
# Steps of 25 ms, so that there is time for a signal on a busy machine too; they
# are quick once it has come.
long=(--run.steps=100 --run.log_every=1 --eval.every=0 --schedule.horizon=100)
# shellcheck disable=SC2054  # commas within a key's list
slow=(--stragglers.delay_ms=25 --stragglers.delay_workers=0,1,2)
for scheme in "${free[@]}"; do
  # shellcheck disable=SC2207
  keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
  on_ranks 3 "stop-$scheme" "${keys[@]}" --run.stop_at=7
  on_ranks 3 "stop-$scheme" "${keys[@]}"
  grep -q "resumed from .*(step 7)" "runs/stop-$scheme/log.txt" ||
    fail "$scheme did not resume at step 7"

  rm -f usr1.out  # else the loop below may see the previous scheme's
  # shellcheck disable=SC2046
  $(ranks 3) "$SYNCOPATE" train tiny.ini "${common[@]}" "${keys[@]}" \
    "${long[@]}" "${slow[@]}" --run.name="usr1-$scheme" >usr1.out 2>usr1.err &
  launcher=$!
  for _ in $(seq 1500); do
    grep -q "^step .* 3/100" usr1.out 2>/dev/null && break
    sleep 0.02
  done
  # mpiexec, its proxy, the ranks.
  pkill -USR1 -n -P "$(pgrep -P $launcher | tail -n 1)"
  code=0
  wait $launcher || code=$?
  ((code == 75)) || { fail "$scheme: exit $code at SIGUSR1"; tail -n 3 usr1.out usr1.err; }
  on_ranks 3 "usr1-$scheme" "${keys[@]}" "${long[@]}"
  grep -q "resumed from" "runs/usr1-$scheme/log.txt" ||
    fail "$scheme did not go on after SIGUSR1"
done

python - "${free[@]}" <<'PY' || fail "asynchronous schemes lose steps, or learn nothing"
import glob, h5py, json, numpy as np, sys
wrong = []
for scheme in sys.argv[1:]:
    for run, steps in (("stop", 20), ("usr1", 100)):
        name = f"runs/{run}-{scheme}"
        newest = sorted(glob.glob(f"{name}/checkpoints/step-*"))[-1]
        counts, batches = [], []
        for rank in range(3):
            with h5py.File(f"{newest}/worker-{rank:04d}.h5") as f:
                batches.append(int(f["batches_seen"][()][0]))
                if "updates" in f and scheme in ("asp", "ssp"):
                    counts.append(int(f["updates"][()][0]))
        with open(f"{newest}/manifest.json") as f:
            worker_steps = json.load(f)["worker_steps"]
        # Every shard applies every step's push once.
        if any(count != 3 * steps for count in counts) or \
                (scheme in ("asp", "ssp") and len(counts) != 3):
            wrong.append(f"{name}: updates {counts}, {3 * steps} expected")
        if worker_steps != 3 * steps:
            wrong.append(f"{name}: {worker_steps} worker_steps")
        if sum(batches) < 3 * steps:
            wrong.append(f"{name}: {batches} batches, {3 * steps} expected")
        with h5py.File(f"{name}/results.h5") as f:
            loss = f["train/loss"][...]
            if f["train/worker_steps"][-1] != 3 * steps or \
                    f["summary/samples"][()] != 8 * sum(batches):
                wrong.append(f"{name}: rows of {f['train/worker_steps'][-1]} "
                             f"worker_steps, {f['summary/samples'][()]} samples")
            if len(set(f["train/step"][...])) != len(loss):
                wrong.append(f"{name}: a row twice")
            falls = steps < 100 or loss[-10:].mean() < 0.9 * loss[:3].mean()
            if not np.isfinite(loss).all() or not falls:
                wrong.append(f"{name}: loss {loss}")
print("\n".join(wrong))
sys.exit(bool(wrong))
PY

# The order of arrivals under MPI, kept in one process; after a resume too.
for case in $(of_each_kind asp ssp); do
  # shellcheck disable=SC2207
  keys=(--sync.scheme="$case" $(scheme_keys "$case"))
  on_ranks 3 "recorded-$case" "${keys[@]}" --asp.record=yes --asp.servers=2 \
    --run.stop_at=10
  on_ranks 3 "recorded-$case" "${keys[@]}" --asp.record=yes --asp.servers=2
  in_process 3 "replayed-$case" "${keys[@]}" --asp.servers=2 \
    --asp.replay="runs/recorded-$case/order.h5"
  python "$here/compare_states.py" --parameters "runs/recorded-$case" \
    "runs/replayed-$case" || fail "$case: the replay differs"
  # And on ranks again.
  on_ranks 3 "again-$case" "${keys[@]}" --asp.servers=2 \
    --asp.replay="runs/recorded-$case/order.h5"
  python "$here/compare_states.py" --parameters "runs/recorded-$case" \
    "runs/again-$case" || fail "$case: the replay on ranks differs"
done

# Stragglers sleep: a factor of three, and five delays of 60 ms.
on_ranks 3 factor --stragglers.factor=1,1,3 --eval.every=0 --run.log_every=1
on_ranks 3 delay --stragglers.delay_workers=1 --stragglers.delay_ms=60 \
  --stragglers.delay_from=3 --stragglers.delay_until=8 --eval.every=0
python - <<'PY' || fail "stragglers do not sleep as long as they should"
import h5py, numpy as np, sys
def read(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return f["comm/compute_s"][...], float(f["summary/time_s"][()])
factor, _ = read("factor")
# Steps differ on a busy machine, and the first ones make plans.
steps = np.median(factor[3:], axis=0)
delays, time_s = read("delay")
delay = delays.sum(0)
print(f"median steps {1e3 * steps} ms, delayed: computed {delay} of {time_s:.2f} s")
sys.exit(not (1.5 * min(steps[:2]) < steps[2] < 30 * max(steps[:2]) and
              factor.max() < 10 and delay[1] >= 0.3 and time_s >= 0.3 and
              delay[1] > delay[0] + 0.1))
PY
finish
