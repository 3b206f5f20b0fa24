#!/usr/bin/env bash
# `simulate` says of schemes of each kind (all under EXHAUSTIVE=1) what `train`
# measures in virtual time: the same seconds, bytes and messages of every worker,
# also where messages hold only the rows of tables that a batch touches. Where
# links are alike, sums in concurrent buckets take the same time within 1%. It
# writes them to a file, and refuses what needs values.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
# shellcheck source=tests/e2e/question_click_inputs.sh
source "$here/question_click_inputs.sh"
export OMP_NUM_THREADS=1

cat >small.ini <<'INI'
[run]
threads = 1
steps = 12
workers = 5
INI
small_network >>small.ini
cat >>small.ini <<'INI'
[eval]
every = 0
[checkpoint]
every = 0
[compute]
step_s = 0.01
law = lognormal
spread = 0.2
speed = 1, 1, 2, 1, 3
[network]
mbit_s = 20, 20, 20, 50, 20
latency_us = 300
message_us = 20
efficiency = 0.94
[stragglers]
episodes = 3:link:+5ms:from=0.05s:for=0.2s
INI

# Everything that costs time in other ways, under one scheme each.
variants=(
  "bsp --sync.collective=butterfly --sync.wire=bf16"
  "bsp --sync.collective=binary_blocks --sync.bucket_mb=0.02"
  "bsp --sync.collective=parameter_server"
  "bsp --sync.collective=native"
  "bsp --network.group=5 --network.group_mbit_s=100 --network.uplink_mbit_s=30"
  "asp --asp.servers=2 --asp.batchnorm=shared --sync.wire=bf16"
  "asp --asp.compensation=per_worker"
  "sgp --sync.wire=bf16"
  "local_sgd --local_sgd.steps=4 --local_sgd.outer=momentum"
  "sync_switch --sync_switch.order=bsp,asp --sync_switch.fractions=0.5,0.5"
)
runs=()
input=small.ini
both() { # both NAME KEYS...
  expect_code 0 "$SYNCOPATE" train $input --run.name="$1" "${@:2}"
  expect_code 0 "$SYNCOPATE" simulate $input "${@:2}" --output="$1.h5"
  runs+=("$1")
}
for scheme in $(schemes_of_each_kind); do
  # shellcheck disable=SC2046  # a list of keys
  both "$scheme" --sync.scheme="$scheme" $(scheme_keys "$scheme")
done
for i in "${!variants[@]}"; do
  # shellcheck disable=SC2086  # a list of keys
  both "variant$i" --sync.scheme=${variants[i]}
done

# Two hosts of four workers.
alike=(--network.mbit_s=20 --stragglers.episodes=none --network.message_us=0)
both hosts "${alike[@]}" --sync.collective=hierarchical --run.workers=8 \
  --compute.speed=1 --network.group=4 --network.group_mbit_s=100 \
  --network.uplink_mbit_s=30

# Embedding tables, of which a message has the rows that the batches touch.
rows=(--compute.step_s=0.01 --eval.every=0 --checkpoint.every=0)
unlike=("${rows[@]}" --run.workers=3 "--network.mbit_s=1 2 1")
input=bert.ini
both rows_bert "${unlike[@]}" --data.accumulate=2
both rows_bert_dense "${unlike[@]}" --sync.tables=dense
input=deepfm.ini
both rows_deepfm "${unlike[@]}" --data.field_rows=60
both rows_by_worker "${unlike[@]}" --data.field_rows=500 \
  --data.batch_by_worker=12,4,20
both rows_whole "${unlike[@]}" --data.field_rows=2
both rows_alike "${rows[@]}" --run.workers=4 --network.mbit_s=2 --sync.wire=bf16
both rows_switch "${unlike[@]}" --data.field_rows=60 --sync.scheme=sync_switch \
  --sync_switch.order=bsp,local_sgd --sync_switch.fractions=0.5,0.5 \
  --local_sgd.steps=2
input=small.ini

# Evaluations and checkpoints, at which all workers wait.
for scheme in asp esync sgp choco; do
  # shellcheck disable=SC2046
  both "bounds_$scheme" --sync.scheme="$scheme" $(scheme_keys "$scheme") \
    --eval.every=5 --checkpoint.every=4
done

# After the last step.
both final_ds_sync --sync.scheme=ds_sync --ds_sync.final_average=yes

# Links that are alike: sums are computed, not sent.
both near_bsp "${alike[@]}"
both near_hierarchical "${alike[@]}" --sync.collective=hierarchical
both near_bsp_small "${alike[@]}" --sync.bucket_mb=0.01 --run.workers=8 \
  --compute.speed=1
both near_bf16 "${alike[@]}" --sync.wire=bf16 --network.latency_us=2000
both near_ds_sync "${alike[@]}" --sync.scheme=ds_sync --run.workers=6 \
  --compute.speed=1
both near_ds_sync_slow "${alike[@]}" --sync.scheme=ds_sync --run.workers=8 \
  --ds_sync.restart=never --compute.speed=1,1,1,1,1,1,1,0.5
both near_tiny "${alike[@]}" --run.workers=33 --compute.speed=1 --run.steps=3 \
  --sync.bucket_mb=0.001
both near_butterfly "${alike[@]}" --run.workers=7 --compute.speed=1 \
  --sync.collective=butterfly --sync.bucket_mb=0.002
both blocks "${alike[@]:0:2}" --run.workers=7 --compute.spread=0.3 \
  --compute.speed=1 --sync.collective=binary_blocks --sync.bucket_mb=0.01 \
  --network.latency_us=20000 --network.message_us=5
both ties_easgd "${alike[@]}" --run.workers=40 --compute.speed=1 --run.steps=4 \
  --sync.scheme=easgd --sync.bucket_mb=1000 --sync.collective=binary_blocks \
  --network.ties_seed=4
both near_local_sgd "${alike[@]}" --sync.scheme=local_sgd --local_sgd.steps=3
both near_esync "${alike[@]}" --sync.scheme=esync

python - "${runs[@]}" <<'PY' || fail "simulate and train differ"
import h5py, sys
import numpy as np
wrong = 0
near = {}
for run in sys.argv[1:]:
    with h5py.File(f"runs/{run}/results.h5") as f, h5py.File(f"{run}.h5") as s:
        trained = {name: f["comm"][name][...].sum(axis=0) for name in (
            "compute_s", "exposed_s", "wait_s", "overlapped_s", "bytes_sent",
            "messages_sent")}
        trained["virtual_s"] = f["summary/virtual_s"][()]
        steps = int(f["train/worker_steps"][-1])
        simulated = {name: s["workers"][name][...]
                     for name in trained if name != "virtual_s"}
        simulated["virtual_s"] = s["summary/virtual_s"][()]
        if steps != s["workers/steps"][...].sum():
            print(f"{run}: {steps} steps, simulated {s['workers/steps'][...]}")
            wrong += 1
    if run.startswith("near_"):
        near[run] = simulated["virtual_s"] / trained["virtual_s"] - 1
        for name in ("exposed_s", "wait_s", "overlapped_s"):
            del trained[name]
        if abs(near[run]) < 0.01:
            del trained["virtual_s"]
    for name, expected in trained.items():
        found = simulated[name]
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-12):
            print(f"{run}: {name} is {expected}, simulated {found}")
            wrong += 1
    if not simulated["bytes_sent"].sum() > 0:
        print(f"{run}: nothing was sent")
        wrong += 1
worst = max(near, key=lambda run: abs(near[run]))
print(f"{len(sys.argv) - 1} runs, {wrong} differences; of concurrent sums, the "
      f"whole run's time is off by {near[worst]:+.4f} at most ({worst})")
sys.exit(wrong > 0)
PY

# What the input does not say decides the result.
expect_code 0 "$SYNCOPATE" simulate "$here/../../inputs/smoke.ini" \
  --run.target='accuracy >= 0.9'
for note in 'compute.step_s is not given' 'messages take no time' \
  'run.target is not judged'; do
  grep -q "^note .*$note" out || fail "no note that $note: $(cat out)"
done

# Virtual times have limits.
sed '/^\[compute\]/,$d' small.ini >endless.ini
for key in --compute.step_s=1e308 --compute.update_s=1e300 \
  "--compute.law=gamma --compute.spread=1e9" \
  --network.latency_us=1e300 --stragglers.factor=1e300 \
  --stragglers.episodes=0:compute:+1e308s; do
  read -ra words <<<"$key"
  expect_code 65 "$SYNCOPATE" train endless.ini --run.name=endless "${words[@]}"
  (($(wc -l <err) == 1)) || fail "$key: $(cat err)"
done
[[ ! -e runs/endless ]] || fail "a refused start left a folder"

# Step times as recorded: a header, a byte order mark, nothing dropped in silence.
sed '/^\[compute\]/,$d; s/^steps = .*/steps = 4/; s/^workers = .*/workers = 1/' \
  small.ini >traced.ini
trace=(--compute.law=trace --compute.trace=steps.csv)
timed() { awk '/^time/ { print $2 }' out; }
printf '\xEF\xBB\xBF0.5\n0.1\n0.1\n0.1\n' >steps.csv
expect_code 0 "$SYNCOPATE" simulate traced.ini "${trace[@]}"
[[ $(timed) == 0.8 ]] || fail "a byte order mark: $(timed) s"
printf 'seconds\n0.5\n0.1\n0.1\n0.1\n' >steps.csv
expect_code 0 "$SYNCOPATE" simulate traced.ini "${trace[@]}"
[[ $(timed) == 0.8 ]] || fail "a header: $(timed) s"
for first in 0.01,oops nan 1e400; do
  printf '%s\n0.5\n0.1\n0.1\n0.1\n' "$first" >steps.csv
  expect_code 65 "$SYNCOPATE" simulate traced.ini "${trace[@]}"
  grep -q 'steps.csv: line 1: ' err || fail "$first: $(cat err)"
done

# --sums=sent sends what is computed otherwise: nothing is said of an error, and
# a single bucket takes the same time.
alike=(--run.workers=6 --run.steps=3 --network.mbit_s=100 --compute.speed=1
  --network.latency_us=50 --sync.bucket_mb=64)
expect_code 0 "$SYNCOPATE" simulate traced.ini "${alike[@]}"
computed=$(timed)
grep -q '^sums  *computed, .*within 1% over many steps (--sums=sent: exact)$' out ||
  fail "computed sums: $(cat out)"
expect_code 0 "$SYNCOPATE" simulate traced.ini "${alike[@]}" --sums=sent
[[ $(timed) == "$computed" ]] || fail "sent: $(timed) s, computed: $computed s"
grep '^sums ' out && fail "sums are computed under --sums=sent"
# Among up to 256 workers rings of any number of buckets are exact.
rings=(--run.workers=48 --run.steps=20 --data.samples=4096 --sync.collective=ring
  --sync.bucket_mb=0.02 --compute.law=lognormal --compute.spread=0.3
  --compute.step_s=0.05 --network.mbit_s=20)
expect_code 0 "$SYNCOPATE" simulate "$here/../../inputs/smoke.ini" "${rings[@]}"
computed=$(timed)
expect_code 0 "$SYNCOPATE" simulate "$here/../../inputs/smoke.ini" "${rings[@]}" --sums=sent
awk "BEGIN { exit !(($(timed) / $computed - 1) ^ 2 < 1e-16) }" ||
  fail "rings: sent: $(timed) s, computed: $computed s"
# Among more of them, one member is followed and compared with all now and then.
# Steps that vary by half: 1.9% too late without comparisons.
rings=(--run.workers=260 --run.steps=12 --data.samples=40000 --sync.collective=ring
  --sync.bucket_mb=0.08 --compute.law=lognormal --compute.spread=0.5
  --compute.step_s=0.05 --network.mbit_s=40 --network.latency_us=100)
expect_code 0 "$SYNCOPATE" simulate "$here/../../inputs/smoke.ini" "${rings[@]}"
computed=$(timed)
grep -q '^sums  *computed, .*within 1% over many steps' out ||
  fail "rings of many workers: $(cat out)"
expect_code 0 "$SYNCOPATE" simulate "$here/../../inputs/smoke.ini" "${rings[@]}" --sums=sent
awk "BEGIN { exit !(($(timed) / $computed - 1) ^ 2 < 0.01 ^ 2) }" ||
  fail "rings of many workers: sent: $(timed) s, computed: $computed s"
# Members of one group meet those of the next on their links: among many workers
# as well, every message is sent where there are not too many.
groups=(--run.workers=300 --run.steps=12 --data.samples=1200 --compute.step_s=0.05
  --compute.speed=1 --compute.spread=0.3 --network.mbit_s=5 --network.latency_us=100
  --sync.scheme=ds_sync --ds_sync.restart=never)
sed '/^episodes/d' small.ini >groups.ini
expect_code 0 "$SYNCOPATE" simulate groups.ini "${groups[@]}" --sums=sent
sent=$(timed)
expect_code 0 "$SYNCOPATE" simulate groups.ini "${groups[@]}"
[[ $(timed) == "$sent" ]] || fail "groups: sent: $sent s, by default: $(timed) s"
expect_code 64 "$SYNCOPATE" simulate traced.ini --sums=all
grep -qx 'error: simulate: --sums=all: expected computed or sent' err ||
  fail "--sums=all: $(cat err)"

expect_code 65 "$SYNCOPATE" simulate small.ini --faults.kind=nan
grep -q "^error: command line: faults.kind: " err || fail "$(cat err)"
expect_code 64 "$SYNCOPATE" simulate small.ini --checkpoint=x
expect_code 73 "$SYNCOPATE" simulate small.ini --output=none/x.h5
grep -qx 'error: none: no such folder' err || fail "no folder: $(cat err)"
expect_code 64 "$SYNCOPATE" simulate small.ini --output=x.csv
grep -q 'expected a name ending in .h5' err || fail "not HDF5: $(cat err)"
expect_code 0 "$SYNCOPATE" simulate small.ini --output=x.h5
expect_code 0 "$SYNCOPATE" inspect x.h5
grep -q '^  simulation: scheme bsp' out || fail "inspect: $(head -n 3 out)"
# What is not a simulation's is not overwritten.
expect_code 0 "$SYNCOPATE" train small.ini --run.name=kept --run.steps=2
kept=$(sha256sum runs/kept/results.h5)
expect_code 73 "$SYNCOPATE" simulate small.ini --output=runs/kept/results.h5
grep -q 'results.h5: would overwrite a file of a run' err || fail "a run's: $(cat err)"
[[ $(sha256sum runs/kept/results.h5) == "$kept" ]] || fail "a run's results changed"
cp small.ini input.h5
expect_code 73 "$SYNCOPATE" simulate input.h5 --output=input.h5
cmp -s small.ini input.h5 || fail "a simulation replaced its input"
# The update counts; and links that only delay are no free ones.
expect_code 0 "$SYNCOPATE" simulate "$SOURCE_DIR/inputs/smoke.ini" --compute.step_s=0.01 \
  --compute.update_s=0.02 --network.latency_us=1000
grep -q '^compute .* per step of a worker, then 0.02 s for the update$' out ||
  fail "update: $(cat out)"
grep -q "mbit_s is not given: the bandwidth of workers' links is unlimited" out ||
  fail "latency only: $(cat out)"
expect_code 0 "$SYNCOPATE" simulate "$SOURCE_DIR/inputs/smoke.ini" --compute.step_s=0.01 \
  --compute.update_s=0.02 --compute.speed=0.5 --run.workers=4 --network.group=2 --network.mbit_s=100
grep -q '^compute .* per step of a worker, then 0.02 s for the update at speed 1$' out ||
  fail "update of slow workers: $(cat out)"
grep -q "group_mbit_s is not given: the bandwidth of links within groups is unlimited" out ||
  fail "islands without a bandwidth: $(cat out)"
# A bandwidth that is hardly one, and an episode that would divide none.
for keys in "--network.mbit_s=1e-308" "--network.mbit_s=100 --network.efficiency=1e-310" \
  "--network.group=2 --network.uplink_mbit_s=1e-300"; do
  # shellcheck disable=SC2086
  expect_code 65 "$SYNCOPATE" simulate small.ini $keys
  grep -q "^error: .*network[.].*expected at least 1e-06 Mbit/s, or 0" err || fail "$keys: $(cat err)"
done
# shellcheck disable=SC2054  # commas within a key's list
unlimited=(--network.mbit_s=0,100,100,100,100)
expect_code 65 "$SYNCOPATE" simulate small.ini "${unlimited[@]}" --stragglers.episodes=0:link:x4
grep -q "0:link:x4: divides a bandwidth that has no limit" err || fail "$(cat err)"
expect_code 0 "$SYNCOPATE" simulate small.ini "${unlimited[@]}" --stragglers.episodes=1:link:x4
read -ra two <<<"$(ranks 2)"
expect_code 64 "${two[@]}" "$SYNCOPATE" simulate small.ini
grep -q "^error: simulate: " err || fail "$(cat err)"
finish
