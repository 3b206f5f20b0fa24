#!/usr/bin/env bash
# The whole program on a GPU, emulated or real: it learns what the CPU learns, gives
# the same bits twice, recorded or not, in one process and under MPI, resumes to
# the bit, and its checkpoints are good on the CPU.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
: "${SYNCOPATE_GPU:?the path of the program with a GPU, emulated or real}"
export OMP_NUM_THREADS=1
sed -i "s/^depth = 8/&\nwidths = 8, 16, 32/" tiny.ini
gpu() { "$SYNCOPATE_GPU" "$@" --run.device=cuda; }
digest() { # digest RUN: of the model in the newest checkpoint
  local newest
  newest=$(printf '%s\n' "runs/$1"/checkpoints/step-* | sort | tail -n 1)
  sha256sum <"$newest/replica.h5"
}
same() { # same RUN RUN WHAT
  [[ -d runs/$1/checkpoints && $(digest "$1") == "$(digest "$2")" ]] ||
    fail "$3: the models differ"
}

# 1. auto takes the GPU that is there.
expect_code 0 "$SYNCOPATE_GPU" train tiny.ini --run.name=auto
grep -q '^device = cuda' runs/auto/input.ini || fail "the echo does not say cuda"

# 2. The CPU's losses, within what other orders of sums make of them.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=cpu --run.device=cpu
precisions=(fp32 bf16)
has_bf16 || { precisions=(fp32) && echo "left out: bf16 (no such instructions)"; }
for precision in "${precisions[@]}"; do
  expect_code 0 gpu train tiny.ini --run.name="$precision" \
    --run.precision="$precision"
done
same auto fp32 "twice the same run"
python - "${precisions[@]}" <<'PY' || fail "the emulated GPU does not follow the CPU"
import h5py, numpy as np, sys
def losses(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return np.concatenate([f["train/loss"][...], f["eval/loss"][...]])
cpu = losses("cpu")
tolerances = {"fp32": 2e-3, "bf16": 0.15}
for run in sys.argv[1:]:
    tolerance = tolerances[run]
    worst = np.abs(losses(run) / cpu - 1).max()
    print(f"{run}: largest relative difference of the loss {worst:.1e}")
    if not 0 < worst < tolerance: sys.exit(1)
PY

# 3. Recorded steps and others, cut anywhere, lead to the same bits; and so do
# dropout, accumulation and clipping.
sed '/^widths = /d' tiny.ini >wrn.ini
options=(--model.family=wrn --model.depth=10 --model.form=pre
  --model.dropout=0.2 --data.accumulate=2 --optimizer.clip_norm=0.5)
expect_code 0 gpu train wrn.ini --run.name=recorded "${options[@]}"
expect_code 0 gpu train wrn.ini --run.name=plain --run.cuda_graphs=off \
  "${options[@]}"
same recorded plain "recorded and not"
expect_code 0 gpu train wrn.ini --run.name=cut --run.stop_at=11 "${options[@]}"
expect_code 0 gpu train wrn.ini --run.name=cut "${options[@]}"
python "$here/compare_runs.py" runs/recorded runs/cut ||
  fail "resumed run differs"

# 4. Two workers: in one process, and two ranks that share the GPU.
expect_code 0 gpu train tiny.ini --run.workers=2 --run.name=two \
  --bsp.batchnorm=averaged --sync.bucket_mb=0.1
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train tiny.ini --run.name=ranks \
  --run.device=cuda --bsp.batchnorm=averaged --sync.bucket_mb=0.1
python "$here/compare_runs.py" --replica-only runs/two runs/ranks ||
  fail "the worlds differ on the GPU"
grep -q '2 ranks share a GPU' runs/ranks/log.txt ||
  fail "the log does not say that ranks share a GPU"

# With a GPU for each rank, NCCL's calls carry the gradients: two summands have
# one sum.
if [[ ${EMULATES_NCCL:-} == ON ]]; then
  # shellcheck disable=SC2046
  SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" \
    train tiny.ini --run.name=nccl --run.device=cuda \
    --bsp.batchnorm=averaged --sync.bucket_mb=0.1
  grep -q '^transport NCCL' runs/nccl/log.txt || fail "the transport is not NCCL"
  # The other commands that look at the transport.
  # shellcheck disable=SC2046
  SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" \
    bench step tiny.ini --run.device=cuda
  grep -q '^transport NCCL' out || fail "bench step does not use NCCL"
  # shellcheck disable=SC2046
  SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" doctor
  grep -q '^\[ok\] *transport *NCCL$' out || fail "doctor does not say NCCL"
  python "$here/compare_runs.py" --replica-only runs/two runs/nccl ||
    fail "NCCL and MPI lead to different models"
  # shellcheck disable=SC2046
  SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" \
    train tiny.ini --run.name=half --run.device=cuda --sync.bucket_mb=0.1 \
    --bsp.batchnorm=averaged --sync.wire=bf16
  python - <<'PY' || fail "bf16 by NCCL: half the bytes, nearly the same losses"
import h5py, numpy as np, sys
def read(run, name):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return f[name][...]
ratio = read("half", "comm/bytes_sent").sum() / read("nccl", "comm/bytes_sent").sum()
worst = np.abs(read("half", "train/loss") / read("nccl", "train/loss") - 1).max()
print(f"bf16 by NCCL: {ratio:.3f} of the bytes, losses within {worst:.1e}")
sys.exit(not (0.5 < ratio < 0.51 and 0 < worst < 0.1))
PY
else
  echo "left out: two GPUs with NCCL (emulated ones, built with its header)"
fi
# shellcheck disable=SC2046
expect_code 65 $(ranks 2) "$SYNCOPATE_GPU" train tiny.ini \
  --run.name=refused --run.device=cuda --sync.transport=nccl
grep -q 'sync.transport: nccl: 2 ranks share a GPU' err ||
  fail "nccl on a shared GPU is not refused in words"

# A rank without a GPU among others with one.
expect_code 65 "$MPIEXEC" -bind-to none -n 1 -env SYNCOPATE_EMULATED_GPUS 0 \
  -env CUDA_VISIBLE_DEVICES "" "$SYNCOPATE_GPU" train tiny.ini \
  --run.name=mixed : -n 1 "$SYNCOPATE_GPU" train tiny.ini --run.name=mixed
grep -q 'run.device: 1 of 2 ranks have a GPU' err ||
  fail "ranks with and without a GPU are not refused in words"

# 5. A checkpoint of the GPU on the CPU, and back.
for device in cpu cuda; do
  expect_code 0 "$SYNCOPATE_GPU" evaluate tiny.ini \
    --checkpoint=runs/fp32 --run.device=$device
  sed -n 's/.*test samples*: *//p; s/.*samples: //p' out | tail -n 1 >$device.txt
done
python - <<'PY' || fail "a checkpoint means other things on CPU and GPU"
import sys
cpu, gpu = (dict(zip(w[::2], map(float, w[1::2]))) for w in
            (open(f"{d}.txt").read().split() for d in ("cpu", "cuda")))
print("evaluated on cpu", cpu, "and gpu", gpu)
sys.exit(not (cpu and all(abs(cpu[k] - gpu[k]) < 1e-3 for k in cpu)))
PY
expect_code 0 "$SYNCOPATE_GPU" predict tiny.ini --checkpoint=runs/fp32 \
  --run.device=cuda --output=scores.csv
[[ $(wc -l <scores.csv) == 41 ]] || fail "predict: not a line a sample"

# 6. Plans of the libraries: measured for the input's steps, kept by GPU and
# versions, read by train.
expect_code 0 gpu bench ops tiny.ini --tune=plans.txt
grep -qE '^plans: [1-9][0-9]* measured; .* plans.txt: [1-9][0-9]* measured on ' \
  out || fail "bench ops --tune does not say what it measured: $(cat out)"
grep -q $'^plan\t[0-9.]*\tconv_backward_data ' plans.txt ||
  fail "no plan of a convolution: $(cat plans.txt)"
expect_code 0 gpu train tiny.ini --run.name=planned --run.plans=plans.txt
grep -qE '^plans +plans.txt: [1-9][0-9]* measured on' runs/planned/log.txt ||
  fail "the log does not say which plans there are"
if [[ ${SYNCOPATE_GPU##*/} == *emulated* ]]; then # its plans are one
  same planned fp32 "with plans and without"
fi
sed -i $'s/^on\t[^\t]*/on\tanother GPU/' plans.txt
expect_code 0 gpu train tiny.ini --run.name=stale --run.plans=plans.txt
grep -qE '^plans .*none for .* the libraries choose .*another GPU' \
  runs/stale/log.txt || fail "the log does not say that plans are stale"
same stale fp32 "with stale plans and without"
expect_code 66 gpu train tiny.ini --run.name=missing --run.plans=missing.txt
expect_code 66 env SYNCOPATE_EMULATED_GPUS=0 CUDA_VISIBLE_DEVICES= \
  "$SYNCOPATE_GPU" bench ops tiny.ini --tune=plans.txt
grep -q '^error: bench ops --tune: .* there is none: ' err ||
  fail "bench ops --tune without a GPU: $(cat err)"
expect_code 65 gpu bench ops tiny.ini --tune=plans.txt --run.workers=2

# 7. Virtual times are those of the CPU, whatever the number of buckets and
# whenever rows are written.
slow=(--run.workers=4 --run.steps=6 --network.mbit_s=0.5 --network.latency_us=500
  --checkpoint.every=0 --eval.every=0)
buckets=--sync.bucket_mb=0.001
for scheme in "bsp $buckets" "bsp $buckets --sync.collective=native" \
  "ds_sync $buckets --ds_sync.restart=never" asp; do
  for every in 1 100; do
    read -ra keys <<<"--sync.scheme=$scheme --run.log_every=$every"
    name="times-${scheme//[^a-z]/}-$every"
    expect_code 0 "$SYNCOPATE" train tiny.ini --run.device=cpu \
      --run.name="$name-cpu" "${slow[@]}" "${keys[@]}"
    expect_code 0 gpu train tiny.ini --run.name="$name-gpu" "${slow[@]}" "${keys[@]}"
    python - "$name" <<'PY' || fail "$name: other times than on the CPU"
import h5py, numpy as np, sys
def times(device):
    with h5py.File(f"runs/{sys.argv[1]}-{device}/results.h5") as file:
        comm = file["comm"]
        return {name: comm[name][...].sum(axis=0) for name in
                ("compute_s", "exposed_s", "overlapped_s", "wait_s", "bytes_sent")}
cpu, gpu = times("cpu"), times("gpu")
for name in cpu:
    if not np.allclose(cpu[name], gpu[name], rtol=1e-6, atol=1e-6):
        sys.exit(f"{name}: {cpu[name]} on the CPU, {gpu[name]} on the GPU")
PY
  done
done

# 8. Time by op: each with what computed it.
expect_code 0 gpu bench layers tiny.ini
grep -qE '^op +shape +calls +ms +share +GB/s +TFLOP/s +engine$' out ||
  fail "bench layers prints no table: $(cat out)"
engine='[a-z]'
[[ ${SYNCOPATE_GPU##*/} != *emulated* ]] || engine='emulated library$'
grep -qE "^conv_forward +[0-9x]+ -> .*  $engine" out ||
  fail "bench layers does not say what computes convolutions: $(cat out)"
[[ $(grep -c '^sgd_update .* 1 .* own$' out) == 1 ]] ||
  fail "bench layers: an op of our own is another's: $(cat out)"
grep -q '^ops of less than some 10 us show how long a launch takes' out ||
  fail "bench layers does not say what short ops show"
grep -qE '^ops: [0-9.]+ ms per step; an undisturbed step: [0-9.]+ ms$' out ||
  fail "bench layers: no sum: $(tail -n 1 out)"
finish
