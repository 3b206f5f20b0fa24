#!/usr/bin/env bash
# BERT and DeepFM on a GPU, emulated or real: they learn what the CPU learns, give
# the same bits twice and over a resume, in one process and on ranks that share
# the GPU; in bf16 too. Dropout is drawn alike on both devices, so it may stay.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
# shellcheck source=tests/e2e/question_click_inputs.sh
source "$here/question_click_inputs.sh"
: "${SYNCOPATE_GPU:?the path of the program with a GPU, emulated or real}"
export OMP_NUM_THREADS=1
[[ -n ${EXHAUSTIVE:-} ]] || sed -i 's/^layers = 2/layers = 1/' bert.ini
short=(--run.steps=4 --run.log_every=1 --eval.every=2 --checkpoint.every=2)

gpu() { # gpu NETWORK NAME KEYS...
  expect_code 0 "$SYNCOPATE_GPU" train "$1.ini" "${short[@]}" \
    --run.device=cuda --run.name="$2" "${@:3}"
}

for network in bert deepfm; do
  expect_code 0 "$SYNCOPATE" train $network.ini "${short[@]}" --run.device=cpu \
    --run.workers=2 --run.name=$network-cpu
  gpu $network $network --run.workers=2
  gpu $network $network-cut --run.workers=2 --run.stop_at=2
  gpu $network $network-cut --run.workers=2
  same_states $network $network-cut || fail "$network: resumed differs"
  # BERT's many kernels take long.
  [[ $network == bert && -z ${EXHAUSTIVE:-} ]] ||
    gpu $network $network-choco --run.workers=3 --sync.scheme=choco \
      --topology.kind=ring --compress.kind=sign --choco.gamma=0.3
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train $network.ini "${short[@]}" \
    --run.device=cuda --run.name=$network-ranks
  same_states $network $network-ranks || fail "$network: the worlds differ"
  python - $network <<'PY' || fail "$network: other losses than on the CPU"
import sys
import h5py
import numpy as np
name = sys.argv[1]
cpu, gpu = (h5py.File(f"runs/{run}/results.h5") for run in (name + "-cpu", name))
for part in ("train/loss", "eval/loss"):
    a, b = cpu[part][...], gpu[part][...]
    assert len(a) == len(b) and np.abs(a - b).max() < 2e-4, (part, a, b)
    assert len(set(a)) > 1
PY
  has_bf16 || { echo "left out: $network in bf16 (no such instructions)"; continue; }
  gpu $network $network-bf16 --run.workers=2 --run.precision=bf16
  python - $network <<'PY' || fail "$network: bf16 is far from fp32"
import sys
import h5py
import numpy as np
runs = [h5py.File(f"runs/{sys.argv[1]}{end}/results.h5")["train/loss"][...]
        for end in ("", "-bf16")]
assert 0 < np.abs(runs[0] - runs[1]).max() < 0.1, runs
PY
done
gpu bert recomputed --run.workers=2 --model.recompute=yes
same_states bert recomputed || fail "model.recompute changes the bits"
gpu deepfm lazy --run.workers=2 --optimizer.embedding=lazy

# Rows of tables through host memory and, by a GPU-aware MPI, which the emulator
# has, from device memory; with two workers a row has the sum of whole tables.
clicks=(--data.field_rows=200 --run.workers=2)
gpu deepfm whole "${clicks[@]}" --sync.tables=dense
gpu deepfm rows "${clicks[@]}"
same_states whole rows || fail "sync.tables = dense: other parameters"
if [[ -n ${SYNCOPATE_EMULATOR_SEED:-} ]]; then
  for wire in fp32 bf16; do
    clicks=(--data.field_rows=200 --sync.wire="$wire")
    gpu deepfm "rows-$wire" "${clicks[@]}" --run.workers=3
    through=(0 1)
    [[ $wire == fp32 || -n ${EXHAUSTIVE:-} ]] || through=(1)
    for aware in "${through[@]}"; do
      # shellcheck disable=SC2046
      SYNCOPATE_EMULATED_GPU_AWARE_MPI=$aware expect_code 0 $(ranks 3) \
        "$SYNCOPATE_GPU" train deepfm.ini "${short[@]}" --run.device=cuda \
        --run.name="rows-$wire-$aware" --sync.transport=mpi "${clicks[@]}"
      same_states "rows-$wire" "rows-$wire-$aware" ||
        fail "rows in $wire: the worlds differ (GPU-aware MPI: $aware)"
    done
    grep -q '^transport GPU-aware MPI' "runs/rows-$wire-1/log.txt" ||
      fail "the transport is not GPU-aware MPI"
  done
fi

# Records that take more than a quarter of the GPU stay on the host, whose threads
# make the same batches. Only an emulated GPU can be made so small. (The sums of
# its matrix products depend on the number of threads.)
if grep -q '^world .*emulated GPU' runs/deepfm/log.txt; then
  many=(--run.workers=2 --data.samples=30000 --data.batch=300 --run.threads=4)
  gpu deepfm on-gpu "${many[@]}"
  grep -q '^data .*, training set on the GPU$' runs/on-gpu/log.txt ||
    fail "deepfm: the log does not say that the records are on the GPU"
  for ahead in 2 0; do
    SYNCOPATE_EMULATED_MEMORY=16000000 gpu deepfm on-host$ahead "${many[@]}" \
      --data.prefetch=$ahead
    said=
    ((ahead == 0)) || said=', batches made ahead by 3 threads'
    grep -q "^data .* test samples$said\$" runs/on-host$ahead/log.txt ||
      fail "deepfm: the log does not say where batches come from"
    same_states on-gpu on-host$ahead ||
      fail "deepfm: other batches from the host than on the GPU"
  done
else
  echo "left out: records on the host (the GPU is not emulated)"
fi

# A GPU for each rank: two summands have one sum.
if [[ ${EMULATES_NCCL:-} == ON ]]; then
  networks=(deepfm)
  [[ -z ${EXHAUSTIVE:-} ]] || networks+=(bert)
  for network in "${networks[@]}"; do
    # shellcheck disable=SC2046
    SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train \
      "$network.ini" "${short[@]}" --run.device=cuda --run.name="$network-nccl"
    grep -q '^transport NCCL' "runs/$network-nccl/log.txt" ||
      fail "$network: the transport is not NCCL"
    same_states "$network" "$network-nccl" || fail "$network: NCCL leads elsewhere"
  done
  # shellcheck disable=SC2046
  SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train \
    deepfm.ini "${short[@]}" --run.device=cuda --run.name=rows-nccl \
    --data.field_rows=200
  same_states rows rows-nccl || fail "rows: NCCL leads elsewhere"
else
  echo "left out: two GPUs with NCCL (emulated ones, built with its header)"
fi
finish
