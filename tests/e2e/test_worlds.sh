#!/usr/bin/env bash
# One process and MPI train to the same bits; N workers with batch B follow one
# worker with batch N*B; traffic is what the formula says.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for n in 2 3; do
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=$n --run.name=in$n \
    --bsp.batchnorm=averaged --sync.bucket_mb=0.1
  # shellcheck disable=SC2046
  expect_code 0 $(ranks $n) "$SYNCOPATE" train tiny.ini --run.name=mpi$n \
    --bsp.batchnorm=averaged --sync.bucket_mb=0.1
  python "$here/compare_runs.py" --replica-only runs/in$n runs/mpi$n ||
    fail "$n workers: the worlds differ"
done

# Hosts of two ranks are groups of two workers.
hosts=(--sync.collective=hierarchical --bsp.batchnorm=averaged
  --sync.bucket_mb=0.1)
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=4 --run.name=in4 \
  --network.group=2 "${hosts[@]}"
# shellcheck disable=SC2046
SYNCOPATE_RANKS_PER_HOST=2 expect_code 0 $(ranks 4) "$SYNCOPATE" train \
  tiny.ini --run.name=mpi4 "${hosts[@]}"
python "$here/compare_runs.py" --replica-only runs/in4 runs/mpi4 ||
  fail "hosts: the worlds differ"

# A run may change worlds at a cut.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=3 --run.name=both \
  --bsp.batchnorm=averaged --sync.bucket_mb=0.1 --run.stop_at=11
# shellcheck disable=SC2046
expect_code 0 $(ranks 3) "$SYNCOPATE" train tiny.ini --run.name=both \
  --bsp.batchnorm=averaged --sync.bucket_mb=0.1
resumed both 11
python "$here/compare_runs.py" --replica-only runs/in3 runs/both ||
  fail "a run that changed worlds differs"

# logistic has no BatchNorm: the mathematics is the same for any N.
sed -e 's/^family = .*/family = logistic/' -e '/^depth/d' \
  -e '/^\[checkpoint\]/,$d' tiny.ini >logistic.ini
for n in 1 2 3 4; do
  expect_code 0 "$SYNCOPATE" train logistic.ini --run.workers=$n \
    --run.name=logistic$n --data.batch=$((24 / n))
done
python - <<'PY' || fail "N workers do not follow one worker of N times the batch"
import glob, h5py, numpy as np, sys
def parameters(n):
    with h5py.File(glob.glob(f"runs/logistic{n}/checkpoints/step-*/replica.h5")[0]) as f:
        out = []
        f["parameters"].visititems(lambda _, d: out.append(d[...].ravel()) if isinstance(d, h5py.Dataset) else None)
        return np.concatenate(out)
one = parameters(1)
for n in (2, 3, 4):
    worst = np.abs(parameters(n) - one).max()
    print(f"logistic, {n} workers: largest difference {worst:.2e}")
    if not worst < 1e-5 or np.abs(one).max() < 0.01: sys.exit(1)
PY

# Payload of a ring all-reduce: 2 (N-1)/N of 4 bytes an element and step.
python - <<'PY' || fail "traffic is not the formula's"
import h5py, sys
with h5py.File("runs/in3/results.h5") as f:
    sent = f["comm/bytes_sent"][...].sum(0)
    D = int(f["provenance"].attrs["parameters"])
    with h5py.File(__import__("glob").glob("runs/in3/checkpoints/step-00000020/replica.h5")[0]) as c:
        B = 0
        def add(_, d):
            global B
            if isinstance(d, h5py.Dataset): B += d.size
        c["buffers"].visititems(add)
total = sent.sum()
expected = 20 * 2 * (3 - 1) * 4 * (D + B)
print(f"3 workers, 20 steps: {total} bytes, formula {expected}")
sys.exit(0 if total == expected else 1)
PY
finish
