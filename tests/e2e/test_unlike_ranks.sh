#!/usr/bin/env bash
# Ranks that read different inputs or data, or do not share the run's directory,
# are refused before the first step, in one line that names the rank. A rank that
# waits for one that never starts MPI ends after a limit.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

# unlike CODE PATTERN KEYS-OF-RANK-0 -- KEYS-OF-RANK-1
unlike() {
  local code=$1 pattern=$2 zero=() one=()
  shift 2
  while [[ $1 != -- ]]; do
    zero+=("$1")
    shift
  done
  one=("${@:2}")
  expect_code "$code" "$MPIEXEC" -bind-to none \
    -n 1 "$SYNCOPATE" train tiny.ini --run.name=unlike "${zero[@]}" : \
    -n 1 "$SYNCOPATE" train tiny.ini --run.name=unlike "${one[@]}"
  [[ $(grep -c '^error: ' err) == 1 ]] || fail "$*: not one line: $(cat err)"
  grep -qE "^error: rank 1 on .* has $pattern: all ranks must read the same" err ||
    fail "not $pattern: $(cat err)"
  [[ ! -e runs/unlike ]] || fail "$*: a refused start left a folder"
}
unlike 65 'optimizer.lr = 0.2, rank 0 has 0.1' \
  --optimizer.lr=0.1 --sync.scheme=local_sgd -- --optimizer.lr=0.2 --sync.scheme=local_sgd
unlike 65 'run.steps = 30, rank 0 has 20' -- --run.steps=30
unlike 65 'sync.scheme = ds_sync, rank 0 has bsp' -- --sync.scheme=ds_sync
unlike 65 'run.seed = 2, rank 0 has 1' -- --run.seed=2
unlike 65 'checkpoint.resume = none, rank 0 has auto' -- --checkpoint.resume=none

# The same input, but another file of data on one host.
python - <<'PY' || exit 1
import h5py, numpy
rng = numpy.random.default_rng(1)
for seed in 1, 2:
    with h5py.File(f"data{seed}.h5", "w") as file:
        for part, count in ("train", 64), ("test", 32):
            file[f"{part}/images"] = rng.integers(
                0, 256, (count, 8, 8, 3), dtype=numpy.uint8)
            file[f"{part}/labels"] = rng.integers(0, 4, count, dtype=numpy.int64)
PY
for rank in 0 1; do
  mkdir host$rank
  cp data$((rank + 1)).h5 host$rank/data.h5
  sed -e '/^\(samples\|test_samples\|classes\|height\|width\) =/d' \
    -e 's/^kind = synthetic_images/kind = hdf5\npath = data.h5/' tiny.ini >host$rank/tiny.ini
done
on_hosts() { # on_hosts CODE KEYS...: each rank in a folder of its own
  local code=$1
  shift
  expect_code "$code" "$MPIEXEC" -bind-to none \
    -n 1 -wdir "$scratch/host0" "$SYNCOPATE" train tiny.ini "$@" : \
    -n 1 -wdir "$scratch/host1" "$SYNCOPATE" train tiny.ini "$@"
}
on_hosts 65 --run.name=data --run.directory="$scratch/shared"
grep -qE '^error: rank 1 on .* has the digest of its data = .*, rank 0 has ' err ||
  fail "other data: $(cat err)"
cp host0/data.h5 host1/data.h5
on_hosts 0 --run.name=data --run.directory="$scratch/shared" --sync.transport=nccl
grep -q '^unused    sync.transport: NCCL is for GPUs$' out || fail "nccl: $(cat out)"

# The data are equal, but the run's directory is not the same folder.
on_hosts 73 --run.name=apart
grep -qE "^error: $scratch/host1/runs/apart: is not the folder .*: rank 1 on " err ||
  fail "two folders: $(cat err)"
[[ ! -e host0/runs && ! -e host1/runs ]] || fail "a refused start left a folder"

# It is, by another path: what one start saves, the next one finds.
ln -s "$scratch/shared" host1/link
for last in --run.stop_at=10 --run.steps=20; do
  expect_code 0 timeout 60 "$MPIEXEC" -bind-to none \
    -n 1 "$SYNCOPATE" train tiny.ini --run.name=paths --run.directory="$scratch/shared" "$last" : \
    -n 1 "$SYNCOPATE" train tiny.ini --run.name=paths --run.directory="$scratch/host1/link" "$last"
done
grep -q 'resumed from .*step-00000010 ' out || fail "by two paths: $(cat out)"

# A checkpoint whose path leads elsewhere on one rank, or to nothing there.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=first --run.directory=host0/runs
mkdir -p host1/runs/first
expect_code 66 timeout 60 "$MPIEXEC" -bind-to none \
  -n 1 -wdir "$scratch/host0" "$SYNCOPATE" train "$scratch/tiny.ini" \
  --run.directory="$scratch/shared" --run.name=second --checkpoint.resume=runs/first : \
  -n 1 -wdir "$scratch/host1" "$SYNCOPATE" train "$scratch/tiny.ini" \
  --run.directory="$scratch/shared" --run.name=second --checkpoint.resume=runs/first
[[ $(grep -c '^error: ' err) == 1 ]] || fail "another path: not one line: $(cat err)"
grep -q 'runs/first/checkpoints/step-00000020: no such checkpoint' err ||
  fail "another path: $(cat err)"

# Ranks share an evaluation, so they must have the same model and data.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=other --run.seed=2
evaluate() { # evaluate PATTERN KEYS-OF-RANK-1
  expect_code 65 "$MPIEXEC" -bind-to none \
    -n 1 "$SYNCOPATE" evaluate tiny.ini --checkpoint=host0/runs/first : \
    -n 1 "$SYNCOPATE" evaluate tiny.ini "${@:2}"
  grep -qE "^error: .*$1" err || fail "evaluate ${*:2}: $(cat err)"
}
evaluate 'runs/other/.*: rank 1 on .* finds a different checkpoint there than rank 0' \
  --checkpoint=runs/other
evaluate 'rank 1 on .* has data.test_samples = 20, rank 0 has 40' \
  --checkpoint=host0/runs/first --data.test_samples=20

# One rank's environment is that rank's mistake.
expect_code 64 "$MPIEXEC" -bind-to none \
  -n 1 "$SYNCOPATE" train tiny.ini --run.name=interface : \
  -n 1 -env SYNCOPATE_INTERFACE nope "$SYNCOPATE" train tiny.ini --run.name=interface
grep -q '^error: rank 1: SYNCOPATE_INTERFACE=nope: no network interface' err ||
  fail "an interface of rank 1: $(cat err)"
rm -r runs

# Rank 1 sees the folder, but may not write to it.
if unshare --mount true 2>err; then
  mkdir runs
  cat >read_only.sh <<'END'
mount --bind runs runs && mount -o remount,ro,bind runs && exec "$@"
END
  expect_code 73 "$MPIEXEC" -bind-to none \
    -n 1 "$SYNCOPATE" train tiny.ini --run.name=locked : \
    -n 1 unshare --mount bash read_only.sh "$SYNCOPATE" train tiny.ini --run.name=locked
  grep -qE "^error: $scratch/runs/locked: cannot be written: Read-only file system: rank 1 on " err ||
    fail "read-only: $(cat err)"
  [[ ! -e runs/locked ]] || fail "read-only: a refused start left a folder"
else
  echo "left out: a folder that one rank may not write to ($(cat err))"
fi

# What may differ is said, and so is what has no effect.
expect_code 0 "$MPIEXEC" -bind-to none \
  -n 1 -env OMP_NUM_THREADS 1 "$SYNCOPATE" train tiny.ini --run.threads=auto \
  --run.watchdog=no --run.io_timeout_s=9 --run.name=threads : \
  -n 1 -env OMP_NUM_THREADS 2 "$SYNCOPATE" train tiny.ini --run.threads=auto \
  --run.watchdog=no --run.io_timeout_s=9 --run.name=threads
grep -q '^world .*, 1 to 2 threads per worker, ' out || fail "threads: $(cat out)"
grep -q '^unused    run.io_timeout_s: run.watchdog = no$' out || fail "watchdog: $(cat out)"

# A fault that is never due.
train_three 0 ranks no-fault --faults.kind=kill --faults.stage=start --faults.step=5
grep -q '^note      faults.kind = kill: has not happened, because worker 0 did not begin the stage "start" at step 5 or later$' \
  out || fail "no fault: $(cat out)"
# The other process never starts MPI.
started=$SECONDS
export SYNCOPATE_START_TIMEOUT_S=3
expect_code 71 timeout 60 "$MPIEXEC" -bind-to none \
  -n 1 "$SYNCOPATE" train tiny.ini --run.name=alone : -n 1 sleep 50
((SECONDS - started >= 3 && SECONDS - started < 40)) ||
  fail "a rank without peers waited for $((SECONDS - started)) s"
grep -q '^error: MPI has not started within 3 s: ' err || fail "not told: $(cat err)"
[[ ! -e runs/alone ]] || fail "a start without peers left a folder"
# shellcheck disable=SC2046
SYNCOPATE_START_TIMEOUT_S=soon expect_code 64 $(ranks 1) "$SYNCOPATE" train tiny.ini
unset SYNCOPATE_START_TIMEOUT_S
finish
