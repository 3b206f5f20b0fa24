#!/usr/bin/env bash
# A scheme that cannot run as asked says so before anything starts: one line a
# mistake, with the key and what would be accepted; nothing is written. Keys
# that a scheme does not use are refused.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
count=0

# refused CODE KEY ACCEPTED KEYS...: exit CODE and one line "error: ", which
# names KEY and holds ACCEPTED, under train and under validate.
refused() {
  local code=$1 key=$2 accepted=$3
  shift 3
  count=$((count + 1))
  expect_code "$code" "$SYNCOPATE" train tiny.ini "$@"
  sed 's/^/    /' err
  (($(wc -l <err) == 1)) || fail "$*: not one line"
  grep -q '^error: ' err || fail "$*: does not begin with error:"
  grep -qF -- "$key" err || fail "$*: does not name $key"
  grep -qF -- "$accepted" err || fail "$*: does not say '$accepted'"
  grep -q internal err && fail "$*: an internal error"
  # The first lines name the program and the run.
  (($(grep -cv '^syncopate \|^run  ' out) == 0)) ||
    fail "$*: something is printed beside the error: $(cat out)"
  cp err train.err
  expect_code "$code" "$SYNCOPATE" validate tiny.ini "$@"
  cmp -s err train.err || { fail "$*: validate says something else:"; cat err; }
}
bad() { refused 65 "$@"; }

w() { echo --run.workers="$1"; }
s() { echo --sync.scheme="$1"; }
top_k=--compress.kind=top_k

echo "workers that do not fit"
bad topology.kind 9 "$(s d_psgd)" "$(w 6)" --topology.kind=torus
bad topology.kind 7 "$(s choco)" "$(w 6)" --topology.kind=expander
bad topology.kind 32 "$(s choco)" "$(w 6)" --topology.kind=social
bad topology.kind 9 "$(s d_psgd)" "$(w 8)" --topology.kind=margulis
bad topology.kind "in groups of 4: it needs whole groups; 4 or 8" \
  "$(s d_psgd)" "$(w 6)" --topology.kind=hierarchical --topology.group=4
bad topology.kind "18 would do" "$(s d_psgd)" "$(w 6)" \
  --topology.kind=hierarchical --topology.group=2 --topology.between=torus
bad ds_sync.radices "6" "$(s ds_sync)" "$(w 6)" --ds_sync.radices=2,2
bad ds_sync.radices "expected" "$(s ds_sync)" "$(w 6)" --ds_sync.radices=2.5,2
bad ds_sync.group "expected" "$(s ds_sync)" "$(w 6)" --ds_sync.group=4
bad ds_sync.group "expected" "$(s ds_sync)" "$(w 6)" --ds_sync.group=2 \
  --ds_sync.radices=2,3
bad asp.servers "expected" "$(s asp)" "$(w 3)" --asp.servers=4
bad asp.servers "expected" "$(s ssp)" "$(w 2)" --asp.servers=3
bad data.batch_by_worker "3" "$(s bsp)" "$(w 3)" --data.batch_by_worker=4,8
bad data.batch_by_worker "data.batch" "$(s bsp)" "$(w 3)" --data.batch_by_worker=4
bad data.batch_by_worker "whole" "$(s bsp)" "$(w 2)" --data.batch_by_worker=4.5,8
bad stragglers.factor "3" "$(s asp)" "$(w 3)" --stragglers.factor=1,2
bad stragglers.delay_workers "3" "$(s asp)" "$(w 3)" --stragglers.delay_ms=10 \
  --stragglers.delay_workers=3
bad stragglers.delay_workers "7 is not a rank of 1 worker" "$(s asp)" \
  --stragglers.delay_ms=10 --stragglers.delay_workers=0,7
bad faults.rank "9 is not a rank: 4 workers have ranks 0 to 3" "$(w 4)" --faults.kind=kill \
  --faults.rank=9
bad faults.rank "1 is not a rank of 1 worker" --faults.kind=nan --faults.rank=1
bad stragglers.delay_workers "name the ranks" "$(s asp)" "$(w 3)" \
  --stragglers.delay_ms=10
bad stragglers.delay_until "more than" "$(s asp)" "$(w 3)" \
  --stragglers.delay_ms=10 --stragglers.delay_workers=1 \
  --stragglers.delay_from=5 --stragglers.delay_until=5
bad compute.speed "3" "$(s esync)" "$(w 3)" --compute.speed=1,2

echo "compressors and formats"
bad compress.biased "expected" "$(s choco)" "$(w 3)" --compress.kind=random_k \
  --compress.biased=no --compress.ratio=0.9
bad compress.biased "expected" "$(s deep_squeeze)" "$(w 3)" \
  --compress.kind=random_k --compress.biased=no --compress.ratio=0.9
bad compress.kind "top_k" "$(s dgc)" "$(w 3)" --compress.kind=sign
bad compress.biased "yes" "$(s dgc)" "$(w 3)" --compress.kind=random_k \
  --compress.biased=no
bad dgc.clip "one of them" "$(s dgc)" "$(w 3)" $top_k --dgc.clip=1 \
  --optimizer.clip_norm=1
bad dgc.warmup_ratios "expected" "$(s dgc)" "$(w 3)" $top_k --dgc.warmup_ratios=1.5
bad dgc.warmup "only with dgc.warmup_ratios" "$(s dgc)" "$(w 3)" $top_k \
  "--dgc.warmup=3 steps"
bad dgc.mask_momentum "top_k or random_k" "$(s dgc)" "$(w 3)" \
  --compress.kind=qsgd --dgc.mask_momentum=yes
bad eval.model "average" "$(s local_sgd)" "$(w 3)" --eval.model=centre
cp tiny.ini tiny.before # fields take neither a rate nor a warm-up
sed -i '/^lr = /d; /^warmup = /d' tiny.ini
bad schedule.fields "4" "$(s bsp)" "$(w 3)" --schedule.kind=fields \
  --schedule.milestones=5 --schedule.fields=0.1,0.2
bad schedule.shapes "expected 2" "$(s bsp)" "$(w 3)" --schedule.kind=fields \
  --schedule.milestones=5 --schedule.fields=0.1,0.2,0.2,0 \
  --schedule.shapes=linear
bad schedule.shapes "inverse_time" "$(s bsp)" "$(w 3)" --schedule.kind=fields \
  --schedule.milestones=5 --schedule.fields=0.1,0.2,0.2,0 \
  --schedule.shapes=linear,linaer
mv tiny.before tiny.ini
bad compress.ratio "expected" "$(s choco)" "$(w 3)" $top_k --compress.ratio=1
bad compress.bits "expected" "$(s choco)" "$(w 3)" --compress.kind=qsgd \
  --compress.bits=0
bad choco.gamma "expected" "$(s choco)" "$(w 3)" --choco.gamma=0
bad choco.gamma "expected" "$(s deep_squeeze)" "$(w 3)" --choco.gamma=1.5
bad power_sgd.rank "expected" "$(s power_sgd)" "$(w 3)" --power_sgd.rank=0
for scheme in ds_sync local_sgd easgd dgc ef_sign_sgd choco; do
  bad sync.wire "$scheme" "$(s $scheme)" "$(w 3)" --sync.wire=bf16
done
bad sync.wire "expected" "$(s bsp)" "$(w 3)" --sync.wire=bf16 \
  --sync.collective=native

echo "bounds, steps and rates"
bad ssp.bound "expected" "$(s ssp)" "$(w 3)" --ssp.bound=-1
bad local_sgd.steps "expected" "$(s local_sgd)" "$(w 3)" --local_sgd.steps=0
bad local_sgd.outer_momentum "expected" "$(s local_sgd)" "$(w 3)" \
  --local_sgd.outer=momentum --local_sgd.outer_momentum=1
bad esync.global_lr "expected" "$(s esync)" "$(w 3)" --esync.global_lr=0
bad esync.epsilon_s "expected" "$(s esync)" "$(w 3)" --esync.epsilon_s=-1
bad esync.query "blocking" "$(s esync)" "$(w 3)" --esync.query=async

echo "phases"
switch=("$(s sync_switch)" "$(w 3)")
bad sync_switch.order "bsp, asp" "${switch[@]}" --sync_switch.order=none
bad sync_switch.order "1 (bsp)" "${switch[@]}" --sync_switch.order=bsp,apsx \
  --sync_switch.fractions=0.5,0.5
bad sync_switch.order "other than sync_switch" "${switch[@]}" \
  --sync_switch.order=bsp,sync_switch --sync_switch.fractions=0.5,0.5
bad sync_switch.order "1 (bsp)" "${switch[@]}" --sync_switch.order=12 \
  --sync_switch.fractions=0.5,0.5
bad sync_switch.fractions "expected" "${switch[@]}" --sync_switch.order=10
bad sync_switch.fractions "expected 1" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=0.5,0.4
bad sync_switch.fractions "expected 2" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=1
bad sync_switch.fractions "at least one" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=0.001,0.999
bad sync_switch.train_steps "one of the two" "${switch[@]}" \
  --sync_switch.order=10 --sync_switch.fractions=0.5,0.5 \
  --sync_switch.train_steps=10,40
bad sync_switch.train_steps "(the last one 40 would fit)" "${switch[@]}" \
  --sync_switch.order=10 --sync_switch.train_steps=10,50
bad sync_switch.train_steps "increase" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.train_steps=20,10
bad sync_switch.momentum_ramp "expected" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=0.5,0.5 --sync_switch.momentum_rule=ramp_linear
bad sync_switch.policy "expected" "${switch[@]}" --sync_switch.order=01 \
  --sync_switch.fractions=0.5,0.5 --sync_switch.policy=greedy
bad sync_switch.policy "expected fixed" "${switch[@]}" --sync_switch.order=0 \
  --sync_switch.policy=elastic
bad sync_switch.plateau "phase to switch to" "${switch[@]}" \
  --sync_switch.order=1 --sync_switch.plateau=eval_loss
bad sync_switch.plateau "eval.every > 0" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.plateau=eval_loss --eval.every=0
bad stragglers.episodes "rank of 3" "$(s asp)" "$(w 3)" \
  --stragglers.episodes=3:compute:x2
bad stragglers.episodes "rank of 1" "$(s asp)" --stragglers.episodes=1:compute:x2
bad stragglers.episodes "compute, link or pause" "$(s asp)" "$(w 3)" \
  --stragglers.episodes=1:disk:x2
bad stragglers.episodes "length of a pause" "$(s asp)" "$(w 3)" \
  --stragglers.episodes=1:pause:x2
bad asp.record "asp.pull = after_push" "$(s asp)" "$(w 3)" --asp.record=yes \
  --asp.pull=before_step
bad stragglers.episodes "network.mbit_s > 0" "$(s asp)" "$(w 3)" \
  --stragglers.episodes=1:link:x2
bad optimizer.lr_scale "none" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=0.5,0.5 --optimizer.lr_scale=linear
bad optimizer.lr_scale "none" "${switch[@]}" --sync_switch.order=10 \
  --sync_switch.fractions=0.5,0.5 --sync_switch.overrides=1:optimizer.lr_scale=linear
bad sync.wire "fp32 with easgd" "${switch[@]}" --sync_switch.order=bsp,easgd \
  --sync_switch.fractions=0.5,0.5 --sync.wire=bf16
# shellcheck disable=SC2054  # commas within a key's list
half=("${switch[@]}" --sync_switch.order=10 --sync_switch.fractions=0.5,0.5)
bad sync_switch.overrides "optimizer" "${half[@]}" \
  --sync_switch.overrides=2:data.batch=4
bad sync_switch.overrides "phases may differ" "${half[@]}" \
  --sync_switch.overrides=2:sync.scheme=bsp
for key in sync.tables=dense sync.bucket_mb=1 asp.record=yes asp.replay=order.h5; do
  bad sync_switch.overrides "phases may differ" "${half[@]}" "--sync_switch.overrides=2:$key"
done
# Of the compressors, each phase's own counts.
bad compress.kind "with dgc" "${switch[@]}" --sync_switch.order=bsp,dgc \
  --sync_switch.fractions=0.5,0.5 --compress.kind=sign
"$SYNCOPATE" validate tiny.ini "${switch[@]}" --sync_switch.order=bsp,dgc \
  --sync_switch.fractions=0.5,0.5 --sync_switch.overrides=2:compress.kind=top_k \
  >out 2>&1 || fail "a phase's compressor: $(tail -1 out)"
# A key of one phase is unused in another.
bad sync_switch.overrides "phase 1: asp.pull: is used by sync.scheme = asp or ssp, not by bsp" \
  "${half[@]}" --sync_switch.overrides=1:asp.pull=before_step
bad sync_switch.overrides "1 to 2" "${half[@]}" \
  --sync_switch.overrides=3:optimizer.lr=0.1
bad sync_switch.overrides "PHASE:section.key=value" "${half[@]}" \
  --sync_switch.overrides=optimizer.lr=0.1
bad optimizer.lrr "optimizer.lr" "${half[@]}" \
  --sync_switch.overrides=2:optimizer.lrr=0.1
bad optimizer.lr "expected" "${half[@]}" \
  --sync_switch.overrides=2:optimizer.lr=-1
bad ssp.bound "sync_switch.order" "${half[@]}" --sync_switch.overrides=2:ssp.bound=1
bad asp.record "expected" "${half[@]}" --asp.record=yes

echo "keys that are not used"
bad ssp.bound "sync.scheme" "$(s asp)" "$(w 3)" --ssp.bound=1
bad asp.batchnorm "shared" "$(s asp)" "$(w 3)" --asp.batchnorm=global
bad esync.epsilon_steps "auto" "$(s esync)" "$(w 3)" --esync.epsilon_steps=-1
bad asp.lambda "asp.compensation" "$(s asp)" "$(w 3)" --asp.lambda=0.1
bad topology.kind "sync.scheme" "$(s bsp)" "$(w 3)" --topology.kind=ring
bad compress.kind "sync.scheme" "$(s d_psgd)" "$(w 3)" --compress.kind=sign
bad compress.ratio "compress.kind" "$(s choco)" "$(w 3)" --compress.kind=sign \
  --compress.ratio=0.5
bad sync_switch.order "sync.scheme" "$(s asp)" "$(w 3)" --sync_switch.order=10
bad sync_switch.min_slowdown "sync_switch.policy" "${half[@]}" \
  --sync_switch.min_slowdown=0.2
bad sync_switch.patience "sync_switch.plateau" "${half[@]}" \
  --sync_switch.patience=2
bad sync_switch.min_change "sync_switch.plateau" "${half[@]}" \
  --sync_switch.min_change=1
bad sync_switch.window "sync_switch.policy" "${half[@]}" --sync_switch.window=4
bad sync.collective "sync.scheme" "$(s asp)" "$(w 3)" --sync.collective=ring
bad sync.bucket_mb "sync.scheme" "$(s sgp)" "$(w 3)" --sync.bucket_mb=1
bad bsp.batchnorm "sync.scheme" "$(s asp)" "$(w 3)" --bsp.batchnorm=averaged
bad local_sgd.outer_lr "local_sgd.outer" "$(s local_sgd)" "$(w 3)" \
  --local_sgd.outer_lr=0.5
bad topology.group "topology.kind" "$(s d_psgd)" "$(w 4)" --topology.kind=ring \
  --topology.group=2
bad stragglers.random_ms "stragglers.random" "$(s asp)" "$(w 3)" \
  --stragglers.random_ms=5
bad sync.scheme "did you mean" "$(s chocco)" "$(w 3)"

echo "recorded orders"
refused 66 asp.replay nowhere.h5 "$(s asp)" "$(w 3)" --asp.replay=nowhere.h5
[[ -e runs ]] && fail "a refused input left a run directory"
expect_code 0 "$SYNCOPATE" train tiny.ini "$(s asp)" "$(w 2)" --asp.record=yes \
  --run.name=recorded
order=runs/recorded/order.h5
bad asp.replay "workers" "$(s asp)" "$(w 3)" --asp.replay=$order
bad asp.replay "expected" "$(s asp)" "$(w 2)" --asp.replay=$order --run.steps=22
bad asp.replay "expected" "$(s asp)" "$(w 2)" --asp.replay=$order --asp.servers=1
bad asp.replay "expected" "$(s ssp)" "$(w 2)" --asp.replay=$order --ssp.bound=1
head -c 100 $order >torn.h5
bad asp.replay "torn.h5" "$(s asp)" "$(w 2)" --asp.replay=torn.h5
bad asp.replay "expected" "$(s asp)" "$(w 2)" \
  --asp.replay=runs/recorded/results.h5
# Boundaries elsewhere are known once the run is there.
expect_code 65 "$SYNCOPATE" train tiny.ini "$(s asp)" "$(w 2)" \
  --asp.replay=$order --checkpoint.every=5 --run.name=elsewhere
sed 's/^/    /' err
(($(wc -l <err) == 1)) || fail "other boundaries: not one line"

echo "several at once, and on several ranks"
expect_code 65 "$SYNCOPATE" train tiny.ini "$(s asp)" "$(w 3)" --ssp.bound=1 \
  --choco.gamma=0.5 --topology.kind=ring --stragglers.factor=1,2
sed 's/^/    /' err
(($(grep -c '^error: ' err) == 4)) || fail "not one line a mistake"
for keys in "$(s ds_sync) --ds_sync.group=2" "$(s asp) --asp.servers=4" \
  "$(s asp) --asp.replay=nowhere.h5" "$(s asp) --ssp.bound=1"; do
  code=65
  [[ $keys == *nowhere* ]] && code=66
  # shellcheck disable=SC2046,SC2086
  expect_code $code $(ranks 3) "$SYNCOPATE" train tiny.ini $keys
  sed 's/^/    /' err
  (($(grep -c '^error: ' err) == 1)) || fail "3 ranks: not one line"
done
[[ $(echo runs/*) == runs/recorded ]] || fail "a refused input left a run directory"

echo "every scheme by its name alone"
for scheme in $("$SYNCOPATE" list schemes | cut -d' ' -f1); do
  expect_code 0 "$SYNCOPATE" validate tiny.ini "$(w 4)" "$(s "$scheme")"
done
((count >= 25)) || fail "only $count inputs"
echo "$count wrong inputs"
# result NAME KEYS...: the last row of a run of two phases, of steps that change
# little in the second.
result() {
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.name="$1" --run.workers=4 \
    --sync.scheme=sync_switch --sync_switch.fractions=0.5,0.5 \
    --checkpoint.every=0 "${@:2}"
  grep '^eval 20/20' "runs/$1/log.txt"
}
# A scheme's own defaults hold in its phase, too.
top_k=(--compress.kind=top_k --compress.ratio=0.9)
own=$(result own --sync_switch.order=bsp,deep_squeeze "${top_k[@]}")
given=$(result given --sync_switch.order=bsp,deep_squeeze "${top_k[@]}" \
  --sync_switch.overrides=2:choco.gamma=0.2)
other=$(result other --sync_switch.order=bsp,deep_squeeze "${top_k[@]}" \
  --choco.gamma=0.5)
[[ $own == "$given" && $own != "$other" ]] ||
  fail "deep_squeeze's own gamma in a phase: $own, $given, $other"
result dgc --sync_switch.order=bsp,dgc \
  --sync_switch.overrides=2:compress.ratio=0.9 >/dev/null
# Workers that are equal when choco begins stay so at a rate of nearly 0, although
# each compresses by numbers of its own.
result choco --sync_switch.order=bsp,choco --compress.kind=random_k \
  --compress.ratio=0.5 --compress.biased=yes --choco.gamma=0.5 \
  --sync_switch.overrides=2:optimizer.lr=1e-9 >line
consensus=$(sed -n 's/.*consensus \([^ ]*\).*/\1/p' line)
awk -v c="$consensus" 'BEGIN { exit !(c != "" && c < 1e-3) }' ||
  fail "choco drives equal workers apart: $(cat line)"

finish
