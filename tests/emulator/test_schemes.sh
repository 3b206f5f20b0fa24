#!/usr/bin/env bash
# Schemes of each kind on a GPU, emulated or real: they learn what the CPU
# learns, give the same bits twice, resume to the bit, and are the same in
# one process and on ranks that share the GPU.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
: "${SYNCOPATE_GPU:?the path of the program with a GPU, emulated or real}"
export OMP_NUM_THREADS=1
# Five steps, the last one behind the end of an epoch of 32 samples.
short=(--run.steps=5 --run.log_every=1 --data.samples=32 --data.batch=4
  --data.test_samples=8 --schedule.warmup=0 --eval.every=4 --eval.batch=8
  --checkpoint.every=3 --optimizer.lr=0.02)
sed -i "s/^depth = 8/&\nwidths = 8, 8, 16/" tiny.ini
# A step's update is late by one under asp: workers of unlike speed.
# shellcheck disable=SC2054  # commas within a key's list
pace=(--run.workers=2 --compute.speed=1,2 --network.latency_us=50000)

gpu() { # gpu NAME KEYS...
  expect_code 0 "$SYNCOPATE_GPU" train tiny.ini "${short[@]}" --run.device=cuda \
    --run.name="$1" "${@:2}"
}

schemes=() resumed=()
for scheme in $(schemes_of_each_kind); do
  schemes+=("$scheme")
  # shellcheck disable=SC2207
  keys=("${pace[@]}" --sync.scheme="$scheme" $(scheme_keys "$scheme"))
  expect_code 0 "$SYNCOPATE" train tiny.ini "${short[@]}" "${keys[@]}" \
    --run.device=cpu --run.name="$scheme-cpu"
  gpu "$scheme" "${keys[@]}"
  gpu "$scheme-cut" "${keys[@]}" --run.stop_at=3
  gpu "$scheme-cut" "${keys[@]}"
  grep -q "resumed from .*(step 3)" "runs/$scheme-cut/log.txt" ||
    fail "$scheme did not resume at step 3"
  resumed+=("runs/$scheme" "runs/$scheme-cut")
done
# The same bits twice, and over a resume.
python "$here/compare_runs.py" --virtual "${resumed[@]}" ||
  fail "a resumed run differs"

# On two ranks: schemes whose bits do not depend on who is first.
for scheme in $(of_each_kind bsp choco dgc power_sgd ds_sync); do
  # shellcheck disable=SC2207
  keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train tiny.ini "${short[@]}" \
    --run.device=cuda --run.name="$scheme-ranks" "${keys[@]}"
  same_states "$scheme" "$scheme-ranks" || fail "$scheme: the worlds differ"
done
for scheme in asp esync; do
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train tiny.ini "${short[@]}" \
    --run.device=cuda --run.name="$scheme-ranks" --sync.scheme="$scheme"
done

sed -e 's/^family = .*/family = logistic/' -e '/^depth = /d' \
  -e '/^widths = /d' tiny.ini >small.ini

# A GPU-aware MPI, which the emulator has, takes messages from device memory; 2:
# but not its sums.
if [[ -n ${SYNCOPATE_EMULATOR_SEED:-} ]]; then
  cases=("3 d_psgd --sync.wire=bf16" "3 choco" "2 dgc" "2 asp"
    "2 bsp --sync.collective=native")
  [[ -z ${EXHAUSTIVE:-} ]] ||
    cases+=("3 d_psgd" "3 ef_sign_sgd" "2 ssp --sync.wire=bf16")
  for case in "${cases[@]}"; do
    read -r n scheme more <<<"$case"
    through=(0 1)
    [[ $more != *native ]] || through+=(2)
    for aware in "${through[@]}"; do
      # shellcheck disable=SC2206,SC2207
      keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme") $more)
      case $scheme$aware in # gradients are applied in one order
        [as]sp0) keys+=(--asp.record=yes) ;;
        [as]sp1) keys+=(--asp.replay=runs/aware-0/order.h5) ;;
        *) keys+=(--sync.transport=mpi) ;;
      esac
      # shellcheck disable=SC2046
      SYNCOPATE_EMULATED_GPU_AWARE_MPI=$aware expect_code 0 $(ranks "$n") \
        "$SYNCOPATE_GPU" train small.ini "${short[@]}" --run.device=cuda \
        "${keys[@]}" --run.name="aware-$aware"
    done
    grep -q '^transport MPI through page-locked memory' runs/aware-0/log.txt ||
      fail "$case: the transport is not host memory"
    grep -q '^transport GPU-aware MPI' runs/aware-1/log.txt ||
      fail "$case: the transport is not GPU-aware MPI"
    for aware in "${through[@]:1}"; do
      same_states aware-0 "aware-$aware" ||
        fail "$case: GPU-aware MPI ($aware) leads elsewhere"
    done
    rm -r runs/aware-*
  done
fi

# A GPU for each rank: NCCL's calls carry what schemes reduce, and two summands
# have one sum.
carried=()
if [[ ${EMULATES_NCCL:-} == ON ]]; then
  for scheme in $(of_each_kind local_sgd easgd power_sgd esync sync_switch \
    ds_sync choco); do
    # shellcheck disable=SC2207
    keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
    # shellcheck disable=SC2046
    SYNCOPATE_EMULATED_GPUS=2 expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train \
      tiny.ini "${short[@]}" --run.device=cuda --run.name="$scheme-nccl" \
      "${keys[@]}"
    grep -q '^transport NCCL' "runs/$scheme-nccl/log.txt" ||
      fail "$scheme: the transport is not NCCL"
    carried+=("$scheme-nccl")
    [[ $scheme == esync || $scheme == sync_switch ]] ||
      same_states "$scheme" "$scheme-nccl" ||
      fail "$scheme: NCCL leads elsewhere"
  done
  # Messages between neighbours or all, and groups of two: the same bits as over MPI.
  cases=("4 ds_sync" "3 sgp --sync.wire=bf16" "3 choco"
    "4 dgc --dgc.warmup_ratios=0.5 --dgc.warmup=2")
  [[ -z ${EXHAUSTIVE:-} ]] || cases+=("3 d_psgd" "2 dgc" "3 ef_sign_sgd"
    "3 d_psgd --sync.wire=bf16" "3 sgp" "3 dcd_psgd"
    "3 ecd_psgd" "3 deep_squeeze" "3 dgc" "4 dgc" "2 ef_sign_sgd" "4 ef_sign_sgd")
  for case in "${cases[@]}"; do
    read -r n scheme more <<<"$case"
    # shellcheck disable=SC2206,SC2207
    keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme") $more)
    for transport in mpi nccl; do
      # shellcheck disable=SC2046
      SYNCOPATE_EMULATED_GPUS=$n expect_code 0 $(ranks "$n") "$SYNCOPATE_GPU" \
        train small.ini "${short[@]}" --run.device=cuda "${keys[@]}" \
        --run.name="between-$transport" --sync.transport=$transport
    done
    grep -q '^transport NCCL' runs/between-nccl/log.txt ||
      fail "$case: the transport is not NCCL"
    same_states between-mpi between-nccl || fail "$case: NCCL leads elsewhere"
    python - <<'PY' || fail "$case: other bytes"
import h5py
sent = [h5py.File(f"runs/between-{t}/results.h5")["comm/bytes_sent"][...].sum()
        for t in ("mpi", "nccl")]
raise SystemExit(int(sent[0] != sent[1]))
PY
    rm -r runs/between-*
  done
  # Sums of three and four summands: NCCL adds in its own order, so parameters are
  # near those by MPI, and those that an average leaves are the same on all members.
  cases=("3 bsp" "4 local_sgd")
  [[ -z ${EXHAUSTIVE:-} ]] || cases+=("3 ds_sync" "4 power_sgd")
  for case in "${cases[@]}"; do
    read -r n scheme <<<"$case"
    # shellcheck disable=SC2207
    keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
    for transport in mpi nccl; do
      # shellcheck disable=SC2046
      SYNCOPATE_EMULATED_GPUS=$n expect_code 0 $(ranks "$n") "$SYNCOPATE_GPU" \
        train small.ini "${short[@]/steps=5/steps=6}" --run.device=cuda \
        "${keys[@]}" --run.name="sum-$transport" --sync.transport=$transport
    done
    grep -q '^transport NCCL' runs/sum-nccl/log.txt ||
      fail "$case: the transport is not NCCL"
    python "$here/compare_states.py" --parameters --tolerance=1e-6 \
      runs/sum-mpi runs/sum-nccl || fail "$case: NCCL's sums lead elsewhere"
    [[ $scheme == ds_sync ]] ||
      python "$here/compare_states.py" --members runs/sum-nccl ||
      fail "$case: members differ"
    rm -r runs/sum-*
  done
else
  echo "left out: two GPUs with NCCL (emulated ones, built with its header)"
fi

# The CPU's losses, but for rounding: sums have other orders. What is chosen
# by size or rounded to few values (top_k, signs, levels) differs where two
# values are nearly equal, by as much as a value is worth.
python - "${schemes[@]}" / "${carried[@]}" <<'PY' || fail "the GPU does not follow the CPU"
import h5py, numpy as np, sys
choosing = {"choco", "dcd_psgd", "ecd_psgd", "deep_squeeze", "ef_sign_sgd", "dgc"}
def losses(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return np.concatenate([f["train/loss"][...], f["eval/loss"][...]])
def seconds(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return f["train/virtual_s"][...]
wrong = False
split = sys.argv.index("/")
for scheme in sys.argv[1:split]:
    cpu, gpu = losses(scheme + "-cpu"), losses(scheme)
    worst = np.abs(gpu / cpu - 1).max()
    print(f"{scheme}: largest relative difference of the loss {worst:.1e}")
    wrong |= not worst < (1e-3 if scheme in choosing else 1e-4)
    wrong |= not np.isfinite(gpu).all() or len(gpu) != 7
    # Virtual time does not ask where sums are formed.
    wrong |= not np.array_equal(seconds(scheme + "-cpu"), seconds(scheme))
for run in ["asp-ranks", "esync-ranks"] + sys.argv[split + 1:]:
    wrong |= not np.isfinite(losses(run)).all()
sys.exit(wrong)
PY
finish
