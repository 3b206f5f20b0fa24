#!/usr/bin/env bash
# Every scheme in bf16 on a GPU, emulated or real: kept copies of weights and
# weights rounded before each product lead to the same bits, whoever else
# writes parameters: means, gossip, pulls, checkpoints, phases, faults.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
: "${SYNCOPATE_GPU:?the path of the program with a GPU, emulated or real}"
export OMP_NUM_THREADS=1
has_bf16 || { echo "left out: bf16 (no such instructions)"; finish; exit; }
# Averages every three steps, and checkpoints not with them, since those renew
# copies too. Odd sizes, so that tensors begin anywhere; a stem with padded channels.
sed -i "s/^depth = 8/&\nwidths = 9, 10, 16/" tiny.ini
keys_of_all=(--run.device=cuda --run.precision=bf16 --run.steps=8
  --run.workers=3 --run.log_every=1 --data.samples=48 --data.batch=4
  --data.test_samples=8 --schedule.warmup=0 --eval.every=5 --eval.batch=8
  --checkpoint.every=4)
sed -i "s/^lr = .*/lr = 0.02/" tiny.ini

train() { # train NAME KEYS...
  expect_code 0 "$SYNCOPATE_GPU" train tiny.ini "${keys_of_all[@]}" \
    --run.name="$1" "${@:2}"
}

# kept_or_rounded WHAT KEYS...: the same model, state and figures.
kept_or_rounded() {
  local what=$1 copies
  shift
  for copies in yes no; do
    train "$copies" "$@" --run.bf16_weights=$copies
  done
  python "$here/compare_runs.py" --virtual runs/yes runs/no ||
    fail "$what: copies lead elsewhere"
  rm -r runs/yes runs/no
}

for scheme in $(all_schemes); do
  # shellcheck disable=SC2046
  kept_or_rounded "$scheme" --sync.scheme="$scheme" $(scheme_keys "$scheme") \
    --compute.speed=1,2,3
done
kept_or_rounded "outer momentum" --sync.scheme=local_sgd --local_sgd.steps=2 \
  --local_sgd.outer=momentum
kept_or_rounded "another optimizer" --sync.scheme=sync_switch \
  --sync_switch.order=10 --sync_switch.fractions=0.4,0.6 \
  --sync_switch.overrides="2:optimizer.kind=adam, 2:optimizer.lr=0.001"
kept_or_rounded "a flipped bit" --sync.scheme=d_psgd --topology.kind=ring \
  --faults.kind=flip --faults.rank=0 --faults.step=3
finish
