#!/usr/bin/env bash
# Runs of random inputs that are stopped and resumed end as without a stop:
# networks, schemes, clusters, stragglers, optimizers and phases that nobody chose
# (1,000 of them under EXHAUSTIVE=1; RANDOM_FIRST begins elsewhere).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE OMP_NUM_THREADS=1
count=20
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=1000
# Each of these found a difference before: link episodes in steps, and a change
# of scheme at a boundary.
python "$here/random_resumes.py" images.ini 2,4 --run.workers=12 --run.steps=7 \
  --run.seed=135 --sync.scheme=esync --model.family=logistic --data.batch=4 \
  --esync.query=non_blocking --compute.law=constant --compute.step_s=0.001 \
  --compute.update_s=0.0005 --network.mbit_s=100 --network.latency_us=20000 \
  --stragglers.episodes=any2:link:+5ms:for=1steps:every=3steps:at=random \
  --network.group=3 --network.uplink_mbit_s=2 --checkpoint.every=2 ||
  fail "see above"
python "$here/random_resumes.py" images.ini 4,11 --run.workers=3 --run.steps=13 \
  --run.seed=597 --sync.scheme=sync_switch --model.family=logistic \
  --data.batch=1 --sync_switch.order=asp,local_sgd \
  --sync_switch.fractions=0.7,0.3 --compute.law=lognormal --compute.step_s=0.01 \
  --compute.spread=0.05 --network.mbit_s=1 --network.latency_us=1000 \
  --network.message_us=5 --network.ties_seed=4 --stragglers.delay_ms=50 \
  --stragglers.delay_workers=0 --data.validation=40 --eval.on=validation \
  --stragglers.episodes=all:link:+5ms:from=2steps:for=3steps \
  --checkpoint.every=1 --schedule.warmup='3 steps' --schedule.kind=cosine \
  --sync_switch.plateau=eval_loss --sync_switch.patience=1 || fail "see above"
python "$here/random_resumes.py" "${RANDOM_FIRST:-1}" $count || fail "see above"
finish
