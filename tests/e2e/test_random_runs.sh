#!/usr/bin/env bash
# `simulate` says of random inputs what `train` measures: schemes, collectives,
# clusters, stragglers and boundaries that nobody chose (2,000 of them under
# EXHAUSTIVE=1; RANDOM_FIRST begins elsewhere).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE OMP_NUM_THREADS=1
count=60
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=2000
# Each of these found a difference before.
# shellcheck disable=SC2054
found=(--sync.scheme=sync_switch --sync_switch.fractions=0.5,0.5
  --compute.update_s=0.0005)
python "$here/random_runs.py" "${found[@]}" --run.workers=7 --run.steps=7 \
  --run.seed=447 --model.family=resnet --model.depth=8 --data.batch=4 \
  --sync_switch.order=asp,asp --compute.law=constant --compute.step_s=0.01 \
  --compute.speed=0.5,1,1,3,0.5,0.5,1 --network.mbit_s=20 \
  --network.latency_us=1000 --network.message_us=2000 --checkpoint.every=2 ||
  fail "see above"
python "$here/random_runs.py" "${found[@]}" --run.workers=4 --run.steps=3 \
  --run.seed=314 --model.family=logistic --data.batch=1 --data.accumulate=2 \
  --sync_switch.order=asp,esync --compute.law=lognormal --compute.step_s=0.05 \
  --compute.spread=0.05 --compute.speed=0.5,0.5,0.5,0.5 \
  --network.device_mbit_s=200 --eval.every=2 || fail "see above"
python "$here/random_runs.py" "${RANDOM_FIRST:-1}" $count || fail "see above"
finish
