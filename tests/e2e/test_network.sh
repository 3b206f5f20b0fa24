#!/usr/bin/env bash
# [network] and [compute] of workers in one process: every key costs or saves
# virtual time as it should, pushes to one server queue on its link, a run that
# is cut goes on with the same links and steps, and recorded steps take what was
# recorded.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

cat >small.ini <<'INI'
[run]
threads = 1
steps = 12
log_every = 1
workers = 4
[model]
family = logistic
[data]
kind = synthetic_images
samples = 512
test_samples = 32
classes = 10
height = 16
width = 16
batch = 4
[optimizer]
lr = 0.01
[eval]
every = 0
INI

small() { # small NAME KEYS...
  expect_code 0 "$SYNCOPATE" train small.ini --run.name="$1" "${@:2}"
}

# 7,690 parameters, 30.8 kB: 24.6 ms on a link of 10 Mbit/s.
step=--compute.step_s=0.01
base=("$step" --network.mbit_s=10 --network.latency_us=1000)
island=(--network.group=2 --network.group_mbit_s=100)
small base "${base[@]}"
small faster "$step" --network.mbit_s=20 --network.latency_us=1000
small later "$step" --network.mbit_s=10 --network.latency_us=9000
small one_slow "$step" --network.mbit_s=10,10,1,10 --network.latency_us=1000
small one_late "$step" --network.mbit_s=10 \
  --network.latency_us=1000,1000,50000,1000
small efficiency "${base[@]}" --network.efficiency=0.8
small message "${base[@]}" --network.message_us=5000
small device "${base[@]}" --network.device_mbit_s=4
small nccl "${base[@]}" --network.device_mbit_s=4 --sync.transport=nccl
small islands "${base[@]}" "${island[@]}"
small late_inside "${base[@]}" "${island[@]}" --network.group_latency_us=9000
small uplink "${base[@]}" "${island[@]}" --network.uplink_mbit_s=2
small slow_inside "${base[@]}" --network.group=2 --network.group_mbit_s=1

# One server for pushes and pulls of all, and a server with a link of its own.
# shellcheck disable=SC2054  # commas within a key's list
server=("$step" --sync.scheme=ssp --ssp.bound=1 --asp.servers=1
  --network.latency_us=100)
small incast "${server[@]}" --network.mbit_s=10
small wide_server "${server[@]}" --network.mbit_s=40,10,10,10

python - <<'PY' || fail "keys of [network] do not cost what they should"
import h5py, sys
def read(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return float(f["train/virtual_s"][-1]), float(
            f["comm/bytes_sent"][...].sum())
def seconds(run):
    return read(run)[0]
wrong = []
def expect(what, holds):
    if not holds:
        wrong.append(what)
for run in ("later", "one_slow", "one_late", "efficiency", "message", "device"):
    expect(f"{run} costs time", seconds(run) > 1.02 * seconds("base"))
expect("faster saves time", seconds("faster") < 0.98 * seconds("base"))
expect("nccl copies nothing", read("nccl") == read("base"))
for run in ("late_inside", "uplink", "slow_inside"):
    expect(f"{run} costs time", seconds(run) > 1.02 * seconds("islands"))
# The ring of 10 Mbit/s: 2 * 3 rounds of a quarter and of the latency, behind a
# step of 10 ms; one bucket.
ring = 12 * (0.01 + 6 * (0.001 + 7690 * 4 / 4 * 8 / 10e6))
expect(f"a ring takes {ring}, not {seconds('base')}",
       abs(seconds("base") / ring - 1) < 0.02)
# Half of all bytes pass the server's link in each direction.
at_least = read("incast")[1] / 2 * 8 / 10e6
expect(f"one server takes {at_least}, not {seconds('incast')}",
       at_least < seconds("incast") < 1.3 * at_least)
# A step, and its push and pull on the worker's own link.
alone = 12 * (0.01 + 2 * 7690 * 4 * 8 / 10e6)
expect(f"a wide server takes {alone}, not {seconds('wide_server')}",
       abs(seconds("wide_server") / alone - 1) < 0.03)
print({run: round(seconds(run), 4) for run in (
    "base", "faster", "later", "one_slow", "one_late", "efficiency", "message",
    "device", "islands", "late_inside", "uplink", "slow_inside", "incast",
    "wide_server")})
print("\n".join(wrong))
sys.exit(bool(wrong))
PY

echo "links and steps of a run that is cut"
noisy=("${server[@]}" --network.mbit_s=10 "${island[@]}" --checkpoint.every=4
  --network.uplink_mbit_s=15 --network.message_us=50 --compute.spread=0.3
  --checkpoint.keep=9)
small whole "${noisy[@]}" --compute.law=lognormal
for stop in 4 8 12; do
  small cut "${noisy[@]}" --compute.law=lognormal --run.stop_at=$stop
done
resumed cut 4 8
python "$here/compare_runs.py" --virtual runs/whole runs/cut ||
  fail "a run that was cut differs"
small gamma "${noisy[@]}" --compute.law=gamma
python "$here/compare_runs.py" --virtual runs/whole runs/gamma >/dev/null &&
  fail "compute.law makes no difference"

echo "recorded steps"
cat >steps.csv <<'CSV'
# seconds of each worker's steps
first,second
0.5,0.25
1,2
0.125,0.125
CSV
small recorded --run.workers=2 --run.steps=3 --compute.law=trace \
  --compute.trace=steps.csv
python - <<'PY' || fail "recorded steps take another time"
import h5py, sys
with h5py.File("runs/recorded/results.h5") as f:
    found = f["train/virtual_s"][...].tolist()
print(found)
sys.exit(found != [0.5, 2.5, 2.625])
PY

# What a run exports is what it replays; steps of free workers have no rows.
: "${SOURCE_DIR:=$(cd "$here/../.." && pwd)}"
export_steps() { python "$SOURCE_DIR/postprocess/export.py" "$1" -o "$2" --steps; }
small varied --run.workers=3 --compute.law=gamma --compute.spread=0.5
expect_code 0 export_steps runs/varied varied.csv
small replayed --run.workers=3 --compute.law=trace --compute.trace=varied.csv
python "$here/compare_runs.py" --virtual runs/varied runs/replayed ||
  fail "exported steps take another time"
expect_code 65 export_steps runs/incast x.csv
grep -q "^error: .*needs run.log_every = 1" err || fail "export: $(cat err)"

bad() { # bad LINE KEYS...
  expect_code 65 "$SYNCOPATE" train small.ini "${@:2}"
  (($(wc -l <err) == 1)) || fail "$*: not one line"
  grep -qF -- "$1" err || { fail "$*: does not say '$1'"; cat err; }
}
echo "1" >short.csv
bad "steps.csv has 3 rows, expected one for each of the run's 12 steps" \
  --run.workers=2 --compute.law=trace --compute.trace=steps.csv
bad "expected one number or 4, one for each worker" --run.steps=1 \
  --compute.law=trace --compute.trace=steps.csv
bad "compute.trace: is missing" --compute.law=trace
bad "compute.trace: . is a folder" --compute.law=trace --compute.trace=.
bad "compute.step_s" "$step" --compute.law=trace --compute.trace=short.csv
bad "network.mbit_s: has 3 numbers for run.workers = 4" --network.mbit_s=1,2,3
bad "network.latency_us: has 2 numbers" --network.latency_us=1,2
bad "network.mbit_s: expected" --network.mbit_s=-1
bad "network.group: is 3 and does not divide run.workers = 4" --network.group=3
bad "network.group" --network.group=2 --run.workers=1
bad "network.uplink_mbit_s" --network.uplink_mbit_s=5
bad "network.efficiency: is a share of a bandwidth" --network.efficiency=0.9

# A change of scheme takes what it sends: from servers, the model and its
# optimizer.
change=("${base[@]}" --optimizer.momentum=0.9)
small first "${change[@]}" --sync.scheme=asp --run.steps=6
small second "${change[@]}" --run.steps=6
small changed "${change[@]}" --sync.scheme=sync_switch --sync_switch.order=asp,bsp \
  --sync_switch.fractions=0.5,0.5
python - <<'PY' || fail "a change of scheme is free"
import h5py

def summary(run, name):
    with h5py.File(f"runs/{run}/results.h5") as file:
        return float(file["summary"][name][()])

for name, least in ("bytes_sent", 3 * 2 * 30760), ("virtual_s", 2 * 0.0246):
    parts = summary("first", name) + summary("second", name)
    assert summary("changed", name) >= parts + least, (name, parts, summary("changed", name))
PY

# No boundary counts in the bytes of a run: not what a server's workers gather.
for every in 0 3; do
  small asp-$every "${base[@]}" --sync.scheme=asp --eval.every=$every
done
python - <<'PY' || fail "evaluations count as control"
import h5py

def control(run):
    with h5py.File(f"runs/{run}/results.h5") as file:
        return file["comm/control_bytes"][()].sum()

assert control("asp-3") < control("asp-0") + 4 * 30760, (control("asp-0"), control("asp-3"))
PY
finish
