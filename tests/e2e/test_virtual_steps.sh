#!/usr/bin/env bash
# When, within a virtual step, a worker sends its buckets, and what slows them,
# against hand computation: accumulated batches, steps that may be skipped, native
# sums of groups on a shared uplink, and episodes of workers and links.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

{
  printf '[run]\nsteps = 10\nworkers = 4\nthreads = 1\n' && small_network
  printf '[compute]\nstep_s = 1\n[network]\nmbit_s = 10\n'
} >steps.ini

simulate() { # simulate NAME KEYS...
  expect_code 0 "$SYNCOPATE" simulate steps.ini --output="$1.h5" "${@:2}"
}

# A sum takes D * 4 * 2 * 3/4 bytes at 1.25 MB/s: about 0.37 s of a step of 1 s.
simulate one
simulate four --data.accumulate=4
simulate stop --run.on_nonfinite=stop
simulate skip --run.on_nonfinite=skip

update=(--run.workers=2 --compute.update_s=0.5 --network.mbit_s=0)
simulate update "${update[@]}"
simulate factor "${update[@]}" --stragglers.factor=4
simulate episode "${update[@]}" --stragglers.episodes=all:compute:x4

# The second sum of groups is between islands: two groups share an uplink as fast
# as both, or half as fast.
# shellcheck disable=SC2054  # commas within a key's list
islands=(--run.steps=2 --sync.scheme=ds_sync --ds_sync.radices=2,2
  --ds_sync.restart=never --ds_sync.final_average=no --ds_sync.batchnorm=local
  --network.group=2 --sync.bucket_mb=1)
for collective in ring native; do
  simulate wide-$collective "${islands[@]}" --network.uplink_mbit_s=20 \
    --sync.collective=$collective
done
simulate narrow-native "${islands[@]}" --network.uplink_mbit_s=10 \
  --sync.collective=native

# What gossip computes comes before its message, and what servers compute before
# their answer.
slow=(--network.mbit_s=0.2 --sync.scheme=choco --topology.kind=complete)
simulate gossip "${slow[@]}" --compute.step_s=0.001
simulate gossip-update "${slow[@]}" --compute.step_s=0.001 --compute.update_s=0.5
served=(--run.workers=8 --sync.scheme=asp --network.mbit_s=0 --compute.update_s=0.5)
for servers in 1 2 8; do
  simulate served-$servers "${served[@]}" --asp.servers=$servers
done
simulate served-apart "${served[@]}" --asp.servers=8 --network.servers=apart

# A query to ESync's state server, which is with worker 0, takes a round trip, and so
# does the count before an average.
esync=(--run.workers=2 --run.steps=100 --sync.scheme=esync --esync.batchnorm=local
  --sync.bucket_mb=1 --network.mbit_s=0 --compute.step_s=0.08 --network.latency_us=10000)
simulate query "${esync[@]}" --compute.speed=1,8
simulate count "${esync[@]}" --compute.speed=8,1

# Native sums are formed one after the other, of however many buckets.
for mb in 1 0.2 0.1; do
  simulate native-$mb --run.workers=5 --sync.collective=native --sync.bucket_mb=$mb \
    --compute.step_s=1e-9 --network.latency_us=1000
done

# Two sums, of which the second begins within the episode.
late=(--run.steps=2 --sync.bucket_mb=1 --stragglers.episodes=1:link:x4:from=2s)
for collective in ring native; do
  simulate late-$collective "${late[@]}" --sync.collective=$collective
done
# Two buckets: the second waits for the first and begins within the episode.
pair=(--run.steps=1 --network.mbit_s=1 --sync.bucket_mb=0.2
  --stragglers.episodes=1:link:x4:from=1.2s)
simulate pair "${pair[@]}" --sync.collective=native
simulate pair-undelayed "${pair[@]:0:3}" --sync.collective=native

# One average of the run meets the slow links, wherever it is in a step.
first=(--run.workers=2 --run.steps=4 --sync.scheme=ds_sync --ds_sync.restart=never)
for place in before_forward after_update; do
  simulate $place "${first[@]}" --ds_sync.place=$place \
    --stragglers.episodes=all:link:+1s:from=1steps:for=1steps
done
simulate undelayed "${first[@]}"

python - <<'PY' || fail "virtual steps do not take what was computed by hand"
import h5py

RATE = 1.25e6  # bytes a second
wrong = []


def of(name):
    with h5py.File(f"{name}.h5") as file:
        return ({key: file["workers"][key][()] for key in file["workers"]},
                float(file["summary/virtual_s"][()]))


def per_step(name, key):
    workers, _ = of(name)
    return (workers[key] / workers["steps"]).mean()


def expect(what, found, wanted, within=1e-6):
    print(what, found, wanted)
    if abs(found / wanted - 1) > within:
        wrong.append((what, found, wanted))


sum_s = per_step("one", "bytes_sent") / RATE
assert 0.3 < sum_s < 0.4, sum_s
# Buckets overlap with the backward pass, 2/3 of a batch, and that of the last
# batch only. What comes after it takes at least the last bucket's part.
one, four = (per_step(name, "exposed_s") for name in ("one", "four"))
assert one < 0.3 * sum_s, one
assert sum_s - 1 / 6 <= four < sum_s, (four, sum_s)
expect("one", of("one")[1], of("stop")[1])
expect("skip exposes the whole sum", per_step("skip", "exposed_s"), sum_s, 0.01)

expect("update", of("update")[1], 15)
expect("factor", of("factor")[1], 60)
expect("compute episode", of("episode")[1], 60)
workers, _ = of("episode")
expect("update_s", workers["update_s"].mean(), 20)
expect("compute_s", workers["compute_s"].mean(), 40)

# A message takes much longer than a step: without an update, 10 of them.
gossip, updated = (of(name)[1] for name in ("gossip", "gossip-update"))
assert gossip > 10, gossip
expect("gossip with an update", updated - gossip, 10 * 0.5, 0.15)
# One server needs 8 * 0.5 s for a push of each worker; two, half of it for each
# half of the model. The others overlap with the steps of 1 s. A worker's own time
# stands for that of its machine's server.
expect("one server", of("served-1")[1], 10 * 4 + 1, 0.1)
expect("two servers", of("served-2")[1], 10 * 2 + 1, 0.1)
expect("a server each", of("served-8")[1], 15)
# Eight servers apart take 0.0625 s each for a push. All workers push at 1 s, so that
# the last one waits for 7 others; after that they do not meet.
expect("servers apart", of("served-apart")[1], 10 * 1.0625 + 7 * 0.0625, 1e-4)

# Every round takes 0.08 s of the slow worker. The fast one's steps take 0.01 s, a
# query and its answer 0.02 s: the fourth would begin at 0.09 s.
steps = of("query")[0]["steps"]
expect("local steps in a round", steps[1] / steps[0], 3, 0.05)

# The slow worker takes one step of 0.08 s a round; its query, the count and the ring
# take two messages of 0.01 s each. After the last step there is only the ring.
workers, seconds = of("count")
expect("rounds of ESync", seconds, workers["steps"][1] * 0.14 - 0.04, 1e-9)

# 2 (N - 1) messages of each bucket, of which no other is in flight.
for mb in ("1", "0.2", "0.1"):
    workers, seconds = of(f"native-{mb}")
    buckets = workers["messages_sent"][0] / workers["steps"][0] / 8
    sums_s = 1.6 * per_step("one", "bytes_sent") / 1.5 / RATE
    expect(f"native sums of {buckets} buckets", seconds / 10, sums_s + buckets * 8 * 0.001, 0.01)

# A sum moves half the model to the neighbour, twice; within an island that is free.
pair_s = per_step("wide-ring", "bytes_sent") / RATE
expect("ring on a wide uplink", of("wide-ring")[1], 2 + pair_s)
expect("native on a wide uplink", of("wide-native")[1], 2 + pair_s)
expect("native on a narrow uplink", of("narrow-native")[1], 2 + 2 * pair_s)

expect("episode at the second sum, native", of("late-native")[1],
       2 + sum_s + 4 * sum_s)
expect("the same by messages", of("late-ring")[1], of("late-native")[1], 0.01)
# The first bucket begins before 1 s; the other one has a third of the model.
added_s = of("pair")[1] - of("pair-undelayed")[1]
total_s = of("pair-undelayed")[0]["bytes_sent"][0] / (RATE / 10)
assert 0.2 < added_s / 3 / total_s < 0.5, (added_s, total_s)

# One average of parameters and one of BatchNorm's statistics, of two rounds each.
before, after = (of(place)[1] - of("undelayed")[1]
                 for place in ("before_forward", "after_update"))
expect("an average before a step", before, after, 0.01)
assert 2 < after < 4, after
assert not wrong, wrong
PY

# Episodes of links that no message passes.
for keys in "--network.group=4 --network.mbit_s=100" \
  "--network.group=1 --network.group_mbit_s=100 --network.mbit_s=0"; do
  # shellcheck disable=SC2086
  expect_code 65 "$SYNCOPATE" simulate steps.ini $keys \
    --stragglers.episodes=0:link:x4
  grep -q "divides a bandwidth that has no limit" err || fail "$keys: $(cat err)"
done

# A traced native sum states what the run counts.
expect_code 0 "$SYNCOPATE" simulate steps.ini --run.steps=1 --sync.bucket_mb=1 \
  --sync.collective=native --output.trace=on --run.name=traced
python - <<'PY' || fail "bytes of a native sum"
import glob, json
import h5py

events = json.load(open(glob.glob("runs/traced/*.json")[0]))
events = events["traceEvents"] if isinstance(events, dict) else events
sums = [event["args"] for event in events if event.get("args", {}).get("bytes_sent")]
with h5py.File("one.h5") as file:
    sent = file["workers/bytes_sent"][0] / file["workers/steps"][0]
mine = [args for args in sums if args["bytes_sent"] == args["bytes_received"]]
assert mine and mine[0]["messages"] == 6, sums
assert abs(mine[0]["bytes_sent"] / sent - 1) < 0.01, (mine, sent)
PY
finish
